"""What a command answers."""

from collections.abc import Callable
from typing import NamedTuple


class Answer(NamedTuple):
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


Rx = Callable[..., Answer]
