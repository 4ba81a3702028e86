"""Attention as Spindle calls it, and the key/value caches behind it.

`transformers` layers compute projections and rotary positions and hand queries, keys and values to the function
registered here under `ATTENTION`.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from spindle.backends.packing import Plan

ATTENTION = "spindle"

_GROWTH = 128
"""Tokens by which a decode cache grows, in a batch's longest row."""


def attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | Plan | None,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """query [B, heads, T, D], key and value [B, key/value heads, L, D] to [B, T, heads, D].

    Without a mask it is causal, T = L: sequences padded on the right need none. A plan says which rows of a packed
    batch attend to which.
    """
    if isinstance(attention_mask, Plan):
        return attention_mask.attend(query, key, value, scaling), None
    outputs = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        is_causal=attention_mask is None,
        scale=scaling,
        enable_gqa=True,
    )
    return outputs.transpose(1, 2), None


class PromptCache:
    """Keeps the keys and values of a batch of prompts, [B, key/value heads, T, D] per layer."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any) -> tuple[Tensor, Tensor]:
        self.keys.append(key)
        self.values.append(value)
        return key, value


class DecodeCache:
    """Keys and values of the rows being generated, each row filled from position 0 to its own length."""

    def __init__(self, device: torch.device) -> None:
        self.lengths = torch.zeros(0, dtype=torch.long, device=device)
        """[rows]: tokens of each row that are in the cache."""
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._longest = 0

    def append(self, prompts: PromptCache, picks: Tensor, lengths: Tensor) -> None:
        """Add a row for each pick: `prompts` row `picks[i]`, whose first `lengths[i]` positions count."""
        self.lengths = torch.cat([self.lengths, lengths])
        self._longest = int(self.lengths.max())
        old = self._keys or [key[:0] for key in prompts.keys]
        self._keys = [self._joined(*pair, picks) for pair in zip(old, prompts.keys, strict=True)]
        old = self._values or [value[:0] for value in prompts.values]
        self._values = [self._joined(*pair, picks) for pair in zip(old, prompts.values, strict=True)]

    def _joined(self, old: Tensor, prompts: Tensor, picks: Tensor) -> Tensor:
        capacity = max(old.shape[2], self._longest + _GROWTH)
        joined = old.new_zeros(old.shape[0] + len(picks), old.shape[1], capacity, old.shape[3])
        joined[: old.shape[0], :, : old.shape[2]] = old
        width = min(prompts.shape[2], self._longest)
        joined[old.shape[0] :, :, :width] = prompts[picks, :, :width]
        return joined

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these, [kept] indices."""
        self.lengths = self.lengths[rows]
        self._keys = [key[rows] for key in self._keys]
        self._values = [value[rows] for value in self._values]

    def open_step(self) -> Tensor:
        """Make room for one token per row; returns its attention mask, added to scores, [rows, 1, 1, L]."""
        self._longest = int(self.lengths.max()) + 1
        if self._longest > self._keys[0].shape[2]:
            self._keys = [F.pad(key, (0, 0, 0, _GROWTH)) for key in self._keys]
            self._values = [F.pad(value, (0, 0, 0, _GROWTH)) for value in self._values]
        positions = torch.arange(self._longest, device=self.lengths.device)
        hidden = positions > self.lengths[:, None]
        mask = torch.zeros(hidden.shape, dtype=self._keys[0].dtype, device=hidden.device)
        return mask.masked_fill_(hidden, float("-inf"))[:, None, None, :]

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any) -> tuple[Tensor, Tensor]:
        """Write one token per row, key and value [rows, key/value heads, 1, D]; returns all up to the longest row."""
        rows = torch.arange(len(self.lengths), device=self.lengths.device)
        self._keys[layer][rows, :, self.lengths] = key[:, :, 0]
        self._values[layer][rows, :, self.lengths] = value[:, :, 0]
        return self._keys[layer][:, :, : self._longest], self._values[layer][:, :, : self._longest]

    def close_step(self) -> None:
        """The tokens written count from now on."""
        self.lengths = self.lengths + 1
