"""A base model in memory: frozen `transformers` weights under LoRA layers, and the passes made with them."""

import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spindle.backends.caches import PromptCache, RowCache
from spindle.backends.contract import BaseModel
from spindle.backends.lora import HEAD, Place, Routing, Span, lora_linear, parts
from spindle.backends.models.directory import read_config
from spindle.backends.packing import Plan
from spindle.backends.stopping import Text

_LOGITS_AT_ONCE = 1 << 25
"""Numbers in one block of logits: 128 MiB in fp32."""


class Padded(NamedTuple):
    """Sequences of different lengths as one batch."""

    tokens: Tensor
    """int64 [B, T], padded on the right with 0."""
    real: Tensor
    """bool [B, T]"""


class Base(ABC):
    """One base model. Not thread-safe: one pass at a time."""

    packs: bool
    """Whether the tokens of a batch may stand at positions of their own and see what a mask lets them see: packed
    sequences, caches of rows of different lengths. Otherwise each row is one sequence from position 0 on."""
    head: Tensor
    """[vocabulary, hidden]"""
    head_bias: Tensor | None = None
    """[vocabulary]"""
    softcap: float | None = None
    """Logits z are softcap * tanh(z / softcap)."""
    places: list[Place]
    """Where an adapter may have a low-rank pair; the output head is the last."""
    cache_bytes_per_token: int
    """Bytes by which the cache of a row grows with each token."""
    cache_bytes_per_row: int = 0
    """Bytes that the cache of a row takes however short it is: recurrent states."""

    def __init__(self, model: BaseModel, device: torch.device, dtype: torch.dtype) -> None:
        self.info = model
        self.device = device
        self.dtype = dtype
        self.text = Text(model.path)
        self.end_tokens = frozenset(_end_tokens(model))
        """What ends a completion unless the caller says otherwise."""
        self._routing = Routing()

    @abstractmethod
    def hidden(
        self,
        tokens: Tensor,
        spans: Sequence[Span],
        *,
        cache: PromptCache | RowCache | None = None,
        positions: Tensor | None = None,
        mask: Tensor | Plan | None = None,
        recompute: bool = False,
    ) -> Tensor:
        """Final hidden states [B, T, hidden] of `tokens` [B, T]; without positions and mask, causal from position 0.

        With `recompute`, layers keep their inputs alone for the backward pass, which must be made under `routed`.
        Only a base that packs takes a cache, positions or a mask.
        """

    def routed(self, spans: Sequence[Span]) -> contextlib.AbstractContextManager[None]:
        """While it lasts, what layers compute again for a backward pass goes through the adapters of `spans`."""
        return self._routing.over(spans)

    def logits(self, states: Tensor, spans: Sequence[Span]) -> Tensor:
        """[n, hidden] to [n, vocabulary], in fp32; spans are counted in rows of `states`."""
        logits = lora_linear(states, self.head, self.head_bias, parts(spans, HEAD, per_row=1)).float()
        return logits if self.softcap is None else logits.div_(self.softcap).tanh_().mul_(self.softcap)

    def logit_slopes(self, logits: Tensor) -> Tensor | None:
        """Derivative of each of `logits` [n, vocabulary] with respect to what the head's matrix gave; None means 1."""
        return None if self.softcap is None else 1 - (logits / self.softcap).square_()

    @property
    def logit_rows(self) -> int:
        """How many rows of logits to hold at once."""
        return max(32, _LOGITS_AT_ONCE // self.head.shape[0])

    def pad(self, sequences: Sequence[Any]) -> Padded:
        """Batch int64 arrays [n_i] of tokens."""
        width = max(len(sequence) for sequence in sequences)
        tokens = torch.zeros(len(sequences), width, dtype=torch.long)
        real = torch.zeros(len(sequences), width, dtype=torch.bool)
        for row, sequence in enumerate(sequences):
            tokens[row, : len(sequence)] = torch.as_tensor(sequence)
            real[row, : len(sequence)] = True
        return Padded(tokens.to(self.device), real.to(self.device))

    def _head_place(self) -> Place:
        return Place(HEAD, inputs=self.head.shape[1], outputs=self.head.shape[0], flag="train_unembed")


def _end_tokens(model: BaseModel) -> list[int]:
    file = model.path / "generation_config.json"
    generation = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for settings in (generation, read_config(model.name, model.path)):
        ids = settings.get("eos_token_id")
        if ids is not None:
            return [ids] if isinstance(ids, int) else list(ids)
    return []
