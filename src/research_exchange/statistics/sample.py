"""What an interval is computed from: one contrast per independent unit, and what is known about the units."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from research_exchange.statistics.contrasts import Range

__all__ = ["PairTable", "Sample", "pair_table"]


@dataclass(frozen=True)
class PairTable:
    """Items of a comparison of two arms, by which of them succeeded."""

    both: int
    first_only: int
    """n10: won by the arm with the positive weight."""
    second_only: int
    """n01"""
    neither: int

    @property
    def n(self) -> int:
        return self.both + self.first_only + self.second_only + self.neither


@dataclass(frozen=True)
class Sample:
    """Contrasts of independent units, in the metric's units."""

    contrasts: Sequence[float]
    """One per unit: per item, or per training seed."""
    reach: Range
    """What a contrast can be."""
    names: Sequence[str] = ()
    """Of the units, in the order of the contrasts; empty where the order given is the order of the experiment."""
    table: PairTable | None = None
    """For two arms with opposite weights that only ever score one end of the bounds or the other."""
    clusters: Sequence[int] = ()
    """Sizes of groups of units that may depend on each other; empty where every unit is independent."""
    population: int | None = None
    """Size of the fixed list that the units are a uniform random subset of; None for draws without end."""
    planned: int | None = None
    """Units that a confidence sequence was planned for, where these are the first of them; None for all."""

    @property
    def n(self) -> int:
        return len(self.contrasts)

    def scaled(self) -> list[float]:
        """Each contrast's place in its range; rounding never leads out of [0, 1]."""
        low, width = self.reach.low, self.reach.width
        return [min(max((contrast - low) / width, 0.0), 1.0) for contrast in self.contrasts]

    def in_hash_order(self) -> "Sample":
        """The same units in ascending order of sha256(name), an order that no outcome has a part in."""
        if not self.names:
            return self
        hashed = [sha256(name.encode("utf-8", "surrogatepass")).digest() for name in self.names]
        order = sorted(range(self.n), key=hashed.__getitem__)
        contrasts = [self.contrasts[index] for index in order]
        return replace(self, contrasts=contrasts, names=[self.names[index] for index in order])


def pair_table(first: Sequence[float], second: Sequence[float], low: float, high: float) -> PairTable | None:
    """Counts pairs of scores; None where a score is neither end of the bounds.

    Args:
        first: Scores of the arm with the positive weight, one per item.
        second: Scores of the other arm, in the same order.
        low, high: Bounds of the metric: a failure and a success.
    """
    pairs = list(zip(first, second, strict=True))
    table = PairTable(
        both=pairs.count((high, high)),
        first_only=pairs.count((high, low)),
        second_only=pairs.count((low, high)),
        neither=pairs.count((low, low)),
    )
    return table if table.n == len(pairs) else None
