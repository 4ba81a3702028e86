"""What every benchmark reports: the same work done here and by a peer, in one run on one machine."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.worker import Measured

THREADS = 2
ROUNDS = 3


@dataclass(frozen=True)
class Comparison:
    """One row: medians of alternating warm rounds, and what the ratio is meant to be."""

    work: str
    peer: str
    ours: float
    theirs: float
    unit: str
    target: float
    """Least ratio; where less is better (time, memory), most."""
    bound: float | None = None
    """What the machine's matmul rate allows, in the same unit, where that is a rate."""

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def less_is_better(self) -> bool:
        return self.unit in ("s", "ms", "GiB", "MB")

    @property
    def met(self) -> bool:
        return self.ratio <= self.target if self.less_is_better else self.ratio >= self.target


def rates(
    tokens: int, ours: Callable[[], Measured], theirs: Callable[[], Measured], rounds: int = ROUNDS
) -> tuple[float, float]:
    """Tokens per second of both ways of doing `tokens` tokens of work, in turns: a busy machine slows both alike."""
    pairs = [(ours().seconds, theirs().seconds) for _ in range(rounds)]
    return (
        tokens / statistics.median(our for our, _ in pairs),
        tokens / statistics.median(their for _, their in pairs),
    )
