"""Keys and values: of a batch of prompts, and of the rows being generated."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

GRAIN = 32
"""Positions are computed in multiples of this, so that sums over them do not depend on who else is in a batch."""

_SPARE = 128
"""Positions that a cache has at first beyond what it needs."""


class KeysValues(NamedTuple):
    """What attention keeps of one prompt."""

    keys: Tensor
    """[layers, key/value heads, P, D]"""
    values: Tensor


class PromptCache:
    """Keeps the keys and values of a batch of prompts, [B, key/value heads, T, D] per layer."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any) -> tuple[Tensor, Tensor]:
        self.keys.append(key)
        self.values.append(value)
        return key, value

    def split(self, lengths: Sequence[int]) -> list[KeysValues]:
        """Each prompt on its own, less its padding."""
        keys, values = torch.stack(self.keys), torch.stack(self.values)
        return [
            KeysValues(keys[:, row, :, :length].clone(), values[:, row, :, :length].clone())
            for row, length in enumerate(lengths)
        ]


class RowCache:
    """Keys and values of the rows being generated, each row filled from position 0 to its own length.

    Per layer a block [slots, key/value heads, capacity, D]; row i sits in slot i. Rows come and go without copies of
    those that stay where they are.
    """

    def __init__(self, device: torch.device) -> None:
        self.lengths: list[int] = []
        """Tokens of each row that are in the cache."""
        self._device = device
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._targets = torch.zeros(0, dtype=torch.long)
        self._width = 0

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in (*self._keys, *self._values))

    def arrange(self, rows: Sequence["int | KeysValues"], longest: int) -> None:
        """Row i becomes what row `rows[i]` was, or starts from a prompt; `longest` is what any of them may become."""
        if not rows:
            self.lengths, self._keys, self._values = [], [], []
            return
        lengths = [self.lengths[row] if isinstance(row, int) else row.keys.shape[2] for row in rows]
        moves = [(slot, row) for slot, row in enumerate(rows) if isinstance(row, int) and row != slot]
        self._reserve(len(rows), max(lengths) + 1, longest, rows)
        if moves:
            targets, sources = torch.tensor(moves, device=self._device).T
            filled = max(lengths[slot] for slot, _ in moves)
            for block in (*self._keys, *self._values):
                block[targets, :, :filled] = block[sources, :, :filled]
        started: dict[int, list[int]] = {}
        prompts: dict[int, KeysValues] = {}
        for slot, row in enumerate(rows):
            if not isinstance(row, int):
                started.setdefault(id(row), []).append(slot)
                prompts[id(row)] = row
        for key, slots in started.items():
            self._start(slots, prompts[key])
        self.lengths = lengths

    def _start(self, slots: Sequence[int], prompt: KeysValues) -> None:
        index = torch.tensor(slots, dtype=torch.long, device=self._device)
        length = prompt.keys.shape[2]
        for blocks, parts in ((self._keys, prompt.keys), (self._values, prompt.values)):
            for block, part in zip(blocks, parts, strict=True):
                block[index, :, :length] = part

    def _reserve(self, slots: int, needed: int, longest: int, rows: Sequence["int | KeysValues"]) -> None:
        """Have at least `slots` slots of `needed` positions, and some to grow into, up to what any row may need."""
        old_slots, _, old_capacity, _ = self._keys[0].shape if self._keys else (0, 0, 0, 0)
        if slots <= old_slots and needed <= old_capacity:
            return
        wanted = needed + max(_SPARE, old_capacity // 2) if needed > old_capacity else old_capacity
        capacity = _rounded(max(needed, min(wanted, longest)))
        occupied = max(len(self.lengths), slots)
        if not self._keys:
            first = next(row for row in rows if not isinstance(row, int))
            layers, heads, _, width = first.keys.shape
            empty = first.keys.new_zeros(0, heads, 0, width)
            self._keys, self._values = [empty] * layers, [empty] * layers
        for blocks in (self._keys, self._values):
            for layer, block in enumerate(blocks):
                grown = block.new_zeros(occupied, block.shape[1], capacity, block.shape[3])
                kept = block[:occupied, :, :capacity]
                grown[: kept.shape[0], :, : kept.shape[2]] = kept
                blocks[layer] = grown

    def open_step(self, longest: int) -> tuple[Tensor, Tensor]:
        """Make room for one token per row; its positions [rows, 1], and the mask to add to scores, [rows, 1, 1, L]."""
        self._reserve(len(self.lengths), max(self.lengths) + 1, longest, ())
        _, heads, capacity, _ = self._keys[0].shape
        lengths = torch.tensor(self.lengths, device=self._device)
        places = torch.arange(len(self.lengths) * heads, device=self._device).view(-1, heads) * capacity
        self._targets = (places + lengths[:, None]).flatten()
        self._width = min(capacity, _rounded(max(self.lengths) + 1))
        hidden = torch.arange(self._width, device=self._device) > lengths[:, None]
        mask = torch.zeros(hidden.shape, dtype=self._keys[0].dtype, device=self._device)
        return lengths[:, None], mask.masked_fill_(hidden, float("-inf"))[:, None, None, :]

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any) -> tuple[Tensor, Tensor]:
        """Write one token per row, key and value [rows, key/value heads, 1, D]; returns all up to the longest row."""
        return self._write(self._keys[layer], key), self._write(self._values[layer], value)

    def _write(self, block: Tensor, token: Tensor) -> Tensor:
        rows, width = token.shape[0], token.shape[3]
        block.view(-1, width).index_copy_(0, self._targets, token.reshape(-1, width))
        return block[:rows, :, : self._width]

    def close_step(self) -> None:
        """The tokens written count from now on."""
        self.lengths = [length + 1 for length in self.lengths]


def _rounded(positions: int) -> int:
    return -(-positions // GRAIN) * GRAIN
