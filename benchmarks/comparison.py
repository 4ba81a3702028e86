"""What every benchmark reports: the same work done here and by a peer, in one run on one machine."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

THREADS = 2


@dataclass(frozen=True)
class Comparison:
    """Tokens per second, medians of alternating warm rounds."""

    work: str
    peer: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def compare(work: str, peer: str, tokens: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Comparison:
    """Time both ways of doing `tokens` tokens of work, in turns, so that a busy machine slows both alike."""
    rounds = [(_seconds(ours), _seconds(theirs)) for _ in range(2)]
    return Comparison(
        work,
        peer,
        ours=tokens / statistics.median(our for our, _ in rounds),
        theirs=tokens / statistics.median(their for _, their in rounds),
    )


def _seconds(do: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun
