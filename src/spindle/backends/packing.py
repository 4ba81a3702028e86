"""Sequences of a batch laid end to end: no padding in linear layers, and a prefix that several share only once.

A packed batch is T rows of one token. Sorted by their tokens, sequences with a common prefix are neighbours, so each
one shares with the one before it what both begin with, and adds rows for the rest of its tokens: its *segment*.
Attention is where rows meet: the queries of a segment see the keys of its sequence up to their own position. Segments
of similar size are attended to together, as one *block*.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from spindle.backends.contract import Array

LEAST_SHARED = 16
"""Tokens that two sequences must begin with, for sharing to pay for collecting a sequence's keys from two places ..."""
_LEAST_PART_SHARED = 32
"""... and at least one token in so many of the sequence."""

_SHORT = 32
"""Segments up to this long count as equally long: the padding costs less than another block."""


class Link(NamedTuple):
    """A sequence in its place among those it may share with."""

    sequence: int
    shared: int
    """Tokens that it has in common with the sequence before it, 0 where too few to share."""


def links(sequences: Sequence[Array]) -> list[Link]:
    """All sequences by their tokens, each with what it can share with the one before."""
    keys = [sequence.astype(">u4").tobytes() for sequence in sequences]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    found: list[Link] = []
    for index in order:
        shared = _common(sequences[found[-1].sequence], sequences[index]) if found else 0
        least = max(LEAST_SHARED, len(sequences[index]) // _LEAST_PART_SHARED)
        found.append(Link(index, shared if shared >= least else 0))
    return found


def _common(first: Array, second: Array) -> int:
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if different.size else length


class _Segment(NamedTuple):
    """The rows that a sequence has to itself, and all rows that its last token sees."""

    sequence: int
    start: int
    """Position of its first own token."""
    length: int
    """Tokens of the sequence."""

    @property
    def own(self) -> int:
        return self.length - self.start


@dataclass(frozen=True)
class Packed:
    """The layout of a batch on T rows."""

    tokens: Array
    """int64 [T]"""
    positions: Array
    """int64 [T]: of each token in its sequence."""
    rows: list[Array]
    """Of each sequence, int64 [N]: the row of each of its tokens."""
    blocks: list["Block"]
    """In the order of their rows."""


def pack(sequences: Sequence[Array]) -> Packed:
    """Lay out sequences of one adapter, common prefixes once."""
    found = links(sequences)
    segments = [_Segment(link.sequence, link.shared, len(sequences[link.sequence])) for link in found]
    ordered = sorted(
        (segment for segment in segments if segment.own),
        key=lambda segment: (segment.start > 0, segment.own, segment.length, segment.start),
    )
    firsts = dict(
        zip((segment.sequence for segment in ordered), _starts(segment.own for segment in ordered), strict=True)
    )
    rows: list[Array] = [np.empty(0, np.int64)] * len(sequences)
    before = rows[0]
    for index, shared in found:
        own = np.arange(len(sequences[index]) - shared) + firsts.get(index, 0)
        before = rows[index] = np.concatenate([before[:shared], own])
    own_tokens = [sequences[segment.sequence][segment.start :] for segment in ordered]
    return Packed(
        tokens=np.concatenate(own_tokens),
        positions=np.concatenate([np.arange(segment.start, segment.length) for segment in ordered]),
        rows=rows,
        blocks=[_block(group, rows) for group in _similar(ordered)],
    )


def _starts(sizes: Iterable[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))[:-1]


def _similar(segments: Sequence[_Segment]) -> list[list[_Segment]]:
    """Consecutive segments whose queries and keys are at least three quarters as many as the longest one's."""
    groups: list[list[_Segment]] = []
    for segment in segments:
        first = groups[-1][0] if groups else None
        if first is not None and _alike(first.own, segment.own) and _alike(first.length, segment.length):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _alike(first: int, second: int) -> bool:
    shorter, longer = sorted((max(first, _SHORT), max(second, _SHORT)))
    return 4 * shorter >= 3 * longer


@dataclass(frozen=True)
class Block:
    """Segments that attend together, B of them; their own rows follow on one another."""

    size: int
    """Rows."""
    shape: tuple[int, int, int]
    """B, most queries and most keys of a segment."""
    gather: "Gather | None"
    """None where the segments are whole sequences of equal length, whose rows need not be moved."""


@dataclass(frozen=True)
class Gather:
    """How rows become [B, queries] and [B, keys], filled up on the right, and back."""

    queries: Array
    """int64 [B * queries], counted from the block's first row."""
    keys: Array
    """int64 [B * keys] rows of the batch."""
    real: Array
    """int64 [size]: which of the queries are the block's rows."""
    seen: Array
    """bool [B or 1, queries, keys]: what lies before a query. It hides the filling too."""


def _block(segments: Sequence[_Segment], rows: Sequence[Array]) -> Block:
    size = sum(segment.own for segment in segments)
    queries = max(segment.own for segment in segments)
    keys = max(segment.length for segment in segments)
    shape = (len(segments), queries, keys)
    if all(segment.own == keys for segment in segments):
        return Block(size, shape, gather=None)
    firsts = _starts(segment.own for segment in segments)
    offsets = np.array([segment.start for segment in segments])
    if (offsets == offsets[0]).all():
        offsets = offsets[:1]
    seen = np.arange(keys)[None, None, :] <= (offsets[:, None] + np.arange(queries))[:, :, None]
    gather = Gather(
        queries=_filled(
            [np.arange(segment.own) + first for segment, first in zip(segments, firsts, strict=True)], queries
        ),
        keys=_filled([rows[segment.sequence] for segment in segments], keys),
        real=np.concatenate([np.arange(segment.own) + i * queries for i, segment in enumerate(segments)]),
        seen=seen,
    )
    return Block(size, shape, gather)


def _filled(parts: Sequence[Array], width: int) -> Array:
    """Parts one after the other, each filled up to `width` with its first entry."""
    filled = np.repeat(np.array([part[:1] for part in parts]), width, axis=1)
    for row, part in zip(filled, parts, strict=True):
        row[: len(part)] = part
    return filled.reshape(-1)


class _Step(NamedTuple):
    """A block on the device."""

    block: Block
    queries: Tensor | None
    real: Tensor | None
    mask: Tensor | None
    """Added to scores, [B or 1, 1, queries, keys]."""


class Plan:
    """The attention of a batch of packed parts one below the other; the same for every layer."""

    def __init__(self, parts: Sequence[Packed], device: torch.device, dtype: torch.dtype) -> None:
        steps = []
        keys = []
        for part, first in zip(parts, _starts(len(part.tokens) for part in parts), strict=True):
            for block in part.blocks:
                steps.append(_step(block, device, dtype))
                if block.gather is not None:
                    keys.append(block.gather.keys + first)
        self._steps = steps
        self._sizes = [step.block.size for step in steps]
        self._keys = torch.as_tensor(np.concatenate(keys), device=device) if keys else None
        """Rows whose keys and values are collected, of all blocks that need it."""
        self._key_sizes = [step.block.shape[0] * step.block.shape[2] for step in steps if step.block.gather is not None]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """query [T, heads, 1, D], key and value [T, key/value heads, 1, D] to [T, 1, heads, D]."""
        queries = torch.split(query.squeeze(2), self._sizes)
        keys, values = self._collected(key.squeeze(2)), self._collected(value.squeeze(2))
        outputs = [
            _attend(step, block_queries, block_keys, block_values, scaling)
            for step, block_queries, block_keys, block_values in zip(self._steps, queries, keys, values, strict=True)
        ]
        return (outputs[0] if len(outputs) == 1 else torch.cat(outputs))[:, None]

    def _collected(self, states: Tensor) -> list[Tensor]:
        """Of [T, heads, D], what each block reads, [B * keys, heads, D]."""
        if self._keys is None:
            return list(torch.split(states, self._sizes))
        gathered = iter(torch.split(states.index_select(0, self._keys), self._key_sizes))
        plain = torch.split(states, self._sizes)
        return [
            own if step.block.gather is None else next(gathered) for own, step in zip(plain, self._steps, strict=True)
        ]


def _step(block: Block, device: torch.device, dtype: torch.dtype) -> _Step:
    gather = block.gather
    if gather is None:
        return _Step(block, None, None, None)
    mask = torch.zeros(gather.seen.shape, dtype=dtype)
    mask.masked_fill_(torch.as_tensor(~gather.seen), float("-inf"))
    padded = len(gather.real) < len(gather.queries)
    return _Step(
        block,
        queries=torch.as_tensor(gather.queries, device=device) if padded else None,
        real=torch.as_tensor(gather.real, device=device) if padded else None,
        mask=mask[:, None].to(device),
    )


def _attend(step: _Step, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
    """query [size, heads, D], key and value [B * keys, key/value heads, D] to [size, heads, D]."""
    rows, queries, keys = step.block.shape
    if step.queries is not None:
        query = query.index_select(0, step.queries)
    outputs = F.scaled_dot_product_attention(
        query.view(rows, queries, *query.shape[1:]).transpose(1, 2),
        key.view(rows, keys, *key.shape[1:]).transpose(1, 2),
        value.view(rows, keys, *value.shape[1:]).transpose(1, 2),
        attn_mask=step.mask,
        is_causal=step.mask is None,
        scale=scaling,
        enable_gqa=True,
    )
    flat = outputs.transpose(1, 2).flatten(0, 1)
    return flat if step.real is None else flat.index_select(0, step.real)
