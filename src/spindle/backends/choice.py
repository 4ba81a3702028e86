"""Choosing the next token of each row from its logits."""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spindle.backends.contract import SamplingParams

_DRAWS_AT_ONCE = 64


class Uniforms:
    """A stream of uniform numbers in [0, 1) that belongs to one sample, whoever else is in the batch."""

    def __init__(self, seed: int | None, sample: int) -> None:
        entropy = secrets.randbits(128) if seed is None else seed % (1 << 64)
        self._generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([entropy, sample])))
        self._drawn: list[float] = []

    def draw(self) -> float:
        if not self._drawn:
            self._drawn = self._generator.random(_DRAWS_AT_ONCE).tolist()[::-1]
        return self._drawn.pop()


class Choice(NamedTuple):
    tokens: list[int]
    logprobs: list[float]
    """Under the model, at temperature 1 and without top-k or top-p."""


def choose(logits: Tensor, params: Sequence[SamplingParams], uniforms: Sequence[Uniforms]) -> Choice:
    """One token per row of fp32 logits [rows, vocabulary]."""
    logprobs = torch.log_softmax(logits, dim=-1)
    tokens = torch.empty(len(params), dtype=torch.long, device=logits.device)
    greedy = [i for i, p in enumerate(params) if p.temperature == 0]
    plain = [i for i, p in enumerate(params) if p.temperature > 0 and not _filters(p)]
    filtered = [i for i, p in enumerate(params) if p.temperature > 0 and _filters(p)]
    if greedy:
        tokens[greedy] = _rows(logits, greedy).argmax(dim=-1)
    if plain:
        scaled = _rows(logprobs, plain) / _column([params[i].temperature for i in plain], logits)
        tokens[plain] = _draw(scaled, [uniforms[i] for i in plain])
    if filtered:
        tokens[filtered] = _draw_filtered(
            _rows(logprobs, filtered), [params[i] for i in filtered], [uniforms[i] for i in filtered]
        )
    chosen = logprobs.gather(1, tokens[:, None])[:, 0]
    return Choice(tokens=tokens.tolist(), logprobs=chosen.tolist())


def _filters(params: SamplingParams) -> bool:
    return params.top_k > 0 or params.top_p < 1


def _rows(values: Tensor, rows: Sequence[int]) -> Tensor:
    return values if len(rows) == len(values) else values[list(rows)]


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]


def _draw(scores: Tensor, uniforms: Sequence[Uniforms]) -> Tensor:
    """Indices drawn from softmax(scores) by inverting the cumulative distribution, one uniform number per row."""
    cumulative = torch.softmax(scores, dim=-1).cumsum(dim=-1, dtype=torch.float64)
    draws = _column([stream.draw() for stream in uniforms], cumulative) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, draws, right=True)[:, 0].clamp_max(scores.shape[1] - 1)


def _draw_filtered(logprobs: Tensor, params: Sequence[SamplingParams], uniforms: Sequence[Uniforms]) -> Tensor:
    """As `transformers` does: temperature, then the k likeliest, then the fewest of those with top_p of the mass."""
    vocabulary = logprobs.shape[1]
    limits = [min(p.top_k, vocabulary) if p.top_k > 0 else vocabulary for p in params]
    scaled = logprobs / _column([p.temperature for p in params], logprobs)
    scores, ids = scaled.topk(max(limits), dim=-1)
    ranks = torch.arange(scores.shape[1], device=scores.device)
    scores = scores.masked_fill(ranks >= torch.tensor(limits, device=scores.device)[:, None], float("-inf"))
    mass = torch.softmax(scores, dim=-1)
    before = mass.cumsum(dim=-1) - mass
    scores = scores.masked_fill((before >= _column([p.top_p for p in params], scores)) & (ranks > 0), float("-inf"))
    return ids.gather(1, _draw(scores, uniforms)[:, None])[:, 0]
