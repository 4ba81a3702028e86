"""What a method can say about a comparison that has not been made yet: thresholds and chances.

Contrasts are taken to be of three kinds: won, lost or even (of two kinds for a single arm). How many are won or lost
at all, the discordance, is an assumption.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from research_exchange.statistics.contrasts import Range
from research_exchange.statistics.intervals import Interval
from research_exchange.statistics.methods import Method
from research_exchange.statistics.sample import PairTable, Sample
from research_exchange.statistics.special import incomplete_beta

__all__ = ["Outlook", "lowest"]

_DEVIATIONS = 8
"""Standard deviations of the number of discordant items that a probability is summed over, and as many items more."""


@dataclass(frozen=True)
class Outlook:
    """A planned comparison.

    A *score* is the number of units won minus those lost; for a single arm it is the number of successes.
    """

    method: Method
    reach: Range
    alpha: float
    n: int
    discordance: float
    """Share of units that are won or lost."""
    single: bool = False
    """One arm against a constant: no unit is even."""
    clusters: tuple[int, ...] = ()
    population: int | None = None

    @property
    def lowest(self) -> int:
        return 0 if self.single else -self.n

    def effect(self, score: int) -> float:
        """The mean contrast at a score."""
        even = self.reach.low if self.single else (self.reach.low + self.reach.high) / 2
        return even + (self.reach.high - even) * score / self.n

    def interval(self, score: int) -> Interval:
        """The interval at a score, with as many discordant units as are assumed, or as the score needs."""
        return self.method.interval(self._sample(score), self.alpha)

    def score_above(self, margin: float) -> int | None:
        """The lowest score whose interval lies above a margin; None where not even winning everything does."""
        return lowest(lambda score: self.interval(score).lower > margin, self.lowest, self.n)

    def score_below(self, margin: float) -> int | None:
        """The highest score whose interval lies below a margin; None where not even losing everything does."""
        first = lowest(lambda score: self.interval(-score).upper < margin, -self.n, -self.lowest)
        return None if first is None else -first

    def chance(self, effect: float, score: int, *, at_least: bool) -> float | None:
        """The probability of a score at least, or at most, this one; None for an effect out of reach.

        Args:
            effect: The true mean contrast, in the metric's units.
        """
        if not self.reach.low <= effect <= self.reach.high:
            return None
        wins = (effect - self.reach.low) / self.reach.width
        if self.single:
            chance = _binomial_tail(self.n, wins, score)
            return chance if at_least else 1 - _binomial_tail(self.n, wins, score + 1)
        difference = 2 * wins - 1
        discordance = max(self.discordance, abs(difference))
        share = (discordance + difference) / (2 * discordance) if discordance else 0.5
        if at_least:
            return _score_tail(self.n, discordance, share, score)
        return _score_tail(self.n, discordance, 1 - share, -score)

    def _sample(self, score: int) -> Sample:
        wins, losses = self._counts(score)
        even = self.n - wins - losses
        low, high = self.reach.low, self.reach.high
        values = [(high, wins), (low, losses), ((low + high) / 2, even)]
        contrasts = _interleaved(values) if self.method.ordered else [v for value, k in values for v in [value] * k]
        table = PairTable(both=even - even // 2, first_only=wins, second_only=losses, neither=even // 2)
        return Sample(contrasts, self.reach, table=table, clusters=self.clusters, population=self.population)

    def _counts(self, score: int) -> tuple[int, int]:
        """Units won and lost: of the parity that the score asks for."""
        if self.single:
            return score, self.n - score
        discordant = max(abs(score), round(self.n * self.discordance))
        if (discordant - score) % 2:
            discordant += 1 if discordant < self.n else -1
        return (discordant + score) // 2, (discordant - score) // 2


def lowest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The lowest whole number from which on a condition holds."""
    if not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def _interleaved(values: list[tuple[float, int]]) -> list[float]:
    """Every value as often as it is counted, each spread evenly over the whole."""
    spread = [((index + 0.5) / count, value) for value, count in values for index in range(count)]
    return [value for _, value in sorted(spread)]


def _score_tail(n: int, discordance: float, share: float, score: int) -> float:
    """P(won − lost ≥ score): the discordant units are binomial, and so are the won ones among them.

    One discordant unit more changes the tail of the won ones by a single probability, so only the first is summed.
    """
    center, deviation = n * discordance, math.sqrt(n * discordance * (1 - discordance))
    low = max(0, math.floor(center - _DEVIATIONS * (deviation + 1)))
    high = min(n, math.ceil(center + _DEVIATIONS * (deviation + 1)))
    needed = -((-low - score) // 2)
    tail, chances = _binomial_tail(low, share, needed), []
    for discordant in range(low, high + 1):
        chances.append(_binomial(n, discordance, discordant) * tail)
        if (discordant + score) % 2:
            tail = min(tail + share * _binomial(discordant, share, needed - 1), 1.0)
        else:
            tail = max(tail - (1 - share) * _binomial(discordant, share, needed), 0.0)
            needed += 1
    return min(math.fsum(chances), 1.0)


def _binomial(n: int, p: float, k: int) -> float:
    """P(Bin(n, p) = k)"""
    if not 0 <= k <= n:
        return 0.0
    if p <= 0 or p >= 1:
        return float(k == (n if p >= 1 else 0))
    logarithm = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(logarithm + k * math.log(p) + (n - k) * math.log1p(-p))


def _binomial_tail(n: int, p: float, k: int) -> float:
    """P(Bin(n, p) ≥ k)"""
    if k <= 0 or k > n:
        return float(k <= 0)
    return incomplete_beta(k, n - k + 1, p)
