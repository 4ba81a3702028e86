"""One completion in the making."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from spindle.backends.choice import Uniforms
from spindle.backends.contract import SampledSequence, SamplingParams, TopK
from spindle.backends.lora import Adapter, Span
from spindle.backends.prompts import Prompt


@dataclass(eq=False)
class Row:
    """A sample of a request: what it starts from, when it stops, and what it has so far."""

    prompt: Prompt
    params: SamplingParams
    uniforms: Uniforms
    stop_tokens: frozenset[int]
    limit: int
    """Most tokens to generate."""
    top: int = 0
    """How many of the likeliest tokens to note at each step."""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top_tokens: list[list[int]] = field(default_factory=list)
    top_logprobs: list[list[float]] = field(default_factory=list)
    stopped: bool = False
    cancelled: bool = False

    @property
    def done(self) -> bool:
        return self.stopped or self.cancelled or len(self.tokens) >= self.limit

    @property
    def longest(self) -> int:
        """Tokens that it may become, its prompt included."""
        return len(self.prompt.tokens) + self.limit

    def sequence(self) -> SampledSequence:
        return SampledSequence(
            tokens=np.asarray(self.tokens, dtype=np.int32),
            logprobs=np.asarray(self.logprobs, dtype=np.float32),
            stop_reason="stop" if self.stopped else "length",
            topk=self._topk() if self.top else None,
        )

    def _topk(self) -> TopK:
        return TopK(
            token_ids=np.asarray(self.top_tokens, dtype=np.int32).reshape(-1, self.top),
            logprobs=np.asarray(self.top_logprobs, dtype=np.float32).reshape(-1, self.top),
        )


def spans(adapters: Iterable[Adapter | None]) -> list[Span]:
    """Consecutive rows of one adapter, given the adapter of each."""
    return [Span(adapter, len(list(run))) for adapter, run in groupby(adapters)]
