"""Choosing the next token of each row from its scores."""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from spindle.backends.contract import SamplingParams
from spindle.backends.scores import Scores

_DRAWS_AT_ONCE = 64
_BLOCK = 256
"""Tokens whose mass is summed up before a draw looks at single ones."""
_LOOKED_AT = 1 << 22
"""Numbers of blocks that several draws look at together."""
_CANDIDATES = 1024
"""Likeliest tokens among which a nucleus is looked for first."""
_BELOW_ONE = 1 - 2.0**-52


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


def choose(scores: Scores, params: Sequence[SamplingParams], uniforms: Sequence[Uniforms]) -> Tensor:
    """One token per row, int64 [rows]. A greedy row takes no number from its stream, any other exactly one."""
    tokens = torch.zeros(len(params), dtype=torch.long, device=scores.logits.device)
    greedy = [i for i, p in enumerate(params) if p.temperature == 0]
    plain = [i for i, p in enumerate(params) if p.temperature == 1 and not _filters(p)]
    tempered = [i for i, p in enumerate(params) if p.temperature not in (0, 1) and not _filters(p)]
    filtered = [i for i, p in enumerate(params) if p.temperature > 0 and _filters(p)]
    if greedy:
        tokens[greedy] = _rows(scores.logits, greedy).argmax(dim=-1)
    if plain:
        tokens[plain] = _drawn(_rows(scores.probabilities, plain), [uniforms[i] for i in plain])
    if tempered:
        mass = _tempered(scores, tempered, [params[i].temperature for i in tempered])
        tokens[tempered] = _drawn(mass, [uniforms[i] for i in tempered])
    if filtered:
        mass = _tempered(scores, filtered, [params[i].temperature for i in filtered])
        tokens[filtered] = _drawn_filtered(mass, [params[i] for i in filtered], [uniforms[i] for i in filtered])
    return tokens


def alternatives(scores: Scores, temperature: float, uniforms: Uniforms, count: int) -> Tensor:
    """`count` independent draws per row at a temperature, int64 [rows, count]."""
    if temperature == 0:
        return scores.logits.argmax(dim=-1, keepdim=True).expand(-1, count)
    rows = len(scores.logits)
    mass = scores.probabilities if temperature == 1 else _tempered(scores, range(rows), [temperature] * rows)
    drawn = [[uniforms.draw() for _ in range(count)] for _ in range(rows)]
    numbers = torch.tensor(drawn, dtype=torch.float64, device=mass.device)
    parts = torch.split(numbers, max(1, _LOOKED_AT // (rows * _BLOCK)), dim=1)
    return torch.cat([_invert(mass, part) for part in parts], dim=1)


def _filters(params: SamplingParams) -> bool:
    return params.top_k > 0 or params.top_p < 1


def _rows(values: Tensor, rows: Sequence[int]) -> Tensor:
    return values if len(rows) == len(values) else values[list(rows)]


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]


def _tempered(scores: Scores, rows: Sequence[int], temperatures: Sequence[float]) -> Tensor:
    """Probabilities at each row's own temperature."""
    logits = _rows(scores.logits, rows)
    logits = logits - logits.amax(dim=-1, keepdim=True)  # so that a low temperature does not overflow
    divisors = _column(temperatures, logits).clamp_min_(torch.finfo(logits.dtype).tiny)
    return torch.softmax(logits / divisors, dim=-1)


def _drawn(mass: Tensor, uniforms: Sequence[Uniforms]) -> Tensor:
    """One index per row of `mass`, drawn in proportion to it."""
    numbers = [[stream.draw()] for stream in uniforms]
    return _invert(mass, torch.tensor(numbers, dtype=torch.float64, device=mass.device))[:, 0]


def _invert(mass: Tensor, numbers: Tensor) -> Tensor:
    """Where the cumulative sum of each row of `mass` [n, width] passes the share `numbers` [n, k] of its total.

    In two steps, so that only block sums and one block per draw are accumulated in float64.
    """
    width = mass.shape[1]
    whole = width // _BLOCK * _BLOCK
    blocks = mass[:, :whole].reshape(len(mass), -1, _BLOCK).sum(dim=-1) if whole else mass[:, :0]
    if whole < width:
        blocks = torch.cat([blocks, mass[:, whole:].sum(dim=-1, keepdim=True)], dim=1)
    sums = blocks.double().cumsum(dim=-1)
    points = (numbers * sums[:, -1:]).minimum(sums[:, -1:] * _BELOW_ONE)
    block = torch.searchsorted(sums, points, right=True).clamp_max_(sums.shape[1] - 1)
    before = (sums - blocks.double()).gather(1, block)
    indices = block[..., None] * _BLOCK + torch.arange(_BLOCK, device=mass.device)
    inside = mass[:, None].expand(-1, block.shape[1], -1).gather(2, indices.clamp_max(width - 1))
    sums = inside.masked_fill_(indices >= width, 0).double().cumsum(dim=-1)
    rest = (points - before)[..., None].clamp_min_(0).minimum(sums[..., -1:] * _BELOW_ONE)
    return (block * _BLOCK + torch.searchsorted(sums, rest, right=True)[..., 0]).clamp_max_(width - 1)


def _drawn_filtered(mass: Tensor, params: Sequence[SamplingParams], uniforms: Sequence[Uniforms]) -> Tensor:
    """One index per row, drawn as `transformers` does: from the k likeliest, of these the fewest with top_p of their
    mass.

    How many tokens a row is looked for among, and so which of equally likely ones come first, depends on it alone.
    """
    vocabulary = mass.shape[1]
    limits = [min(p.top_k, vocabulary) if p.top_k > 0 else vocabulary for p in params]
    limit, top_p = _column(limits, mass), _column([p.top_p for p in params], mass)
    found = torch.zeros(len(params), dtype=torch.long, device=mass.device)
    rows, width = list(range(len(params))), min(_CANDIDATES, vocabulary)
    while rows:
        nucleus = _nucleus(_rows(mass, rows), _rows(limit, rows), _rows(top_p, rows), width)
        ready = nucleus.complete.tolist()
        drawing = [row for row, complete in zip(rows, ready, strict=True) if complete]
        if drawing:
            kept, ids = nucleus.mass[nucleus.complete], nucleus.ids[nucleus.complete]
            found[drawing] = ids.gather(1, _drawn(kept, [uniforms[row] for row in drawing])[:, None])[:, 0]
        rows = [row for row, complete in zip(rows, ready, strict=True) if not complete]
        width = min(8 * width, vocabulary)
    return found


class _Nucleus(NamedTuple):
    """The tokens that rows may draw, looked for among so many of the likeliest."""

    mass: Tensor
    """[n, width], likeliest first, 0 outside."""
    ids: Tensor
    """int64 [n, width]"""
    complete: Tensor
    """bool [n]: whether none of a row's lies beyond."""


def _nucleus(mass: Tensor, limit: Tensor, top_p: Tensor, width: int) -> _Nucleus:
    vocabulary = mass.shape[1]
    likeliest, ids = mass.topk(width, dim=-1)
    ranks = torch.arange(width, device=mass.device)
    likeliest = likeliest.masked_fill(ranks >= limit, 0)
    sums = likeliest.cumsum(dim=-1)
    total = torch.where(limit < vocabulary, sums[:, -1:], 1.0)
    complete = (limit <= width) | ((limit == vocabulary) & (sums[:, -1:] > top_p))
    outside = (sums - likeliest >= top_p * total) & (ranks > 0)
    return _Nucleus(likeliest.masked_fill(outside, 0), ids, complete[:, 0])
