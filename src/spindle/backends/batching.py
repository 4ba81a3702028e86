"""Which sequences of a request go into a micro-batch together."""

from collections.abc import Sequence

from spindle.backends.contract import Array
from spindle.backends.packing import Link, links

_COLLECTED_PER_TOKEN = 16
"""A token whose keys and values are collected takes at most this part of the memory of a token that is computed."""


def packed_batches(sequences: Sequence[Array], most: int) -> list[list[int]]:
    """Indices of sequences for packed micro-batches of at most `most` tokens, common prefixes counted once.

    Sequences that share a prefix stay together where they fit, and similar lengths do. A longer sequence is alone.
    """
    batches: list[list[int]] = []
    room = 0.0
    groups = _sharing(links(sequences))
    groups.sort(key=lambda group: max(len(sequences[link.sequence]) for link in group), reverse=True)
    for group in groups:
        costs = [_cost(len(sequences[link.sequence]), link.shared) for link in group]
        if sum(costs) > room:
            room = 0.0
        for link, cost in zip(group, costs, strict=True):
            if cost > room:
                batches.append([])
                cost = len(sequences[link.sequence])
                room = most
            batches[-1].append(link.sequence)
            room -= cost
    return batches


def _sharing(found: Sequence[Link]) -> list[list[Link]]:
    groups: list[list[Link]] = []
    for link in found:
        if link.shared:
            groups[-1].append(link)
        else:
            groups.append([link])
    return groups


def _cost(length: int, shared: int) -> float:
    return length - shared + (length / _COLLECTED_PER_TOKEN if shared else 0)


def padded_batches(sequences: Sequence[Array], most: int) -> list[list[int]]:
    """Indices of sequences of similar length, at most `most` tokens with the padding. A longer sequence is alone."""
    batches: list[list[int]] = []
    for index in sorted(range(len(sequences)), key=lambda i: (-len(sequences[i]), i)):
        batch = batches[-1] if batches else []
        if batch and (len(batch) + 1) * len(sequences[batch[0]]) <= most:
            batch.append(index)
        else:
            batches.append([index])
    return batches
