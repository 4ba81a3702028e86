"""A random selection that anyone can repeat: the hash of a seed and an id decides (R-193)."""

import json
from collections.abc import Iterable
from hashlib import sha256

__all__ = ["select_ids"]


def select_ids(ids: Iterable[str], size: int, seed: int) -> tuple[str, ...]:
    """The first `size` ids in ascending order of sha256 over the JSON `[seed, id]`, ties by id."""
    return tuple(sorted(ids, key=lambda name: (_digest(seed, name), name))[:size])


def _digest(seed: int, name: str) -> str:
    return sha256(json.dumps([seed, name]).encode()).hexdigest()
