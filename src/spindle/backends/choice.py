"""Choosing the next token of each row from its scores."""

import secrets
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from spindle.backends.contract import SamplingParams
from spindle.backends.scores import Scores

_DRAWS_AT_ONCE = 64
_BLOCK = 256
"""Tokens whose mass is summed up before a draw looks at single ones."""
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
    numbers = [[uniforms.draw() for _ in range(count)] for _ in range(rows)]
    return _invert(mass, torch.tensor(numbers, dtype=torch.float64, device=mass.device))


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
    return torch.softmax(logits / _column(temperatures, logits), dim=-1)


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
    """As `transformers` does: the k likeliest, then the fewest of those with top_p of their mass."""
    vocabulary = mass.shape[1]
    limits = [min(p.top_k, vocabulary) if p.top_k > 0 else vocabulary for p in params]
    limit, top_p = _column(limits, mass), _column([p.top_p for p in params], mass)
    width = max([_CANDIDATES, *(p.top_k for p in params)])
    while True:
        width = min(width, vocabulary)
        likeliest, ids = mass.topk(width, dim=-1)
        ranks = torch.arange(width, device=mass.device)
        likeliest = likeliest.masked_fill(ranks >= limit, 0)
        sums = likeliest.cumsum(dim=-1)
        total = torch.where(limit < vocabulary, sums[:, -1:], 1.0)
        if width == vocabulary or bool(((limit <= width) | (sums[:, -1:] > top_p * total)).all()):
            break
        width *= 8
    outside = (sums - likeliest >= top_p * total) & (ranks > 0)
    kept = likeliest.masked_fill(outside, 0)
    return ids.gather(1, _drawn(kept, uniforms)[:, None])[:, 0]
