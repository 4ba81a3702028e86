"""Intervals by betting (Waudby-Smith & Ramdas 2024, hedged capital): a mean is out once a bet against it pays 2/α.

The bets of one unit depend on the units before it, so units are taken in the order of their hashed names.
"""

import math
from collections.abc import Callable, Sequence

from research_exchange.statistics.intervals import Interval, between
from research_exchange.statistics.sample import Sample
from research_exchange.statistics.special import bisect

__all__ = ["bets", "cs_betting", "paired_betting"]

_STEPS = 36
"""Halvings of [0, 1] before an end is rounded outward: 1.5e-11 of the contrast's range."""
_MOST_STAKED = 0.5
"""Of the capital, c: what one unit can lose."""


def paired_betting(sample: Sample, alpha: float) -> Interval:
    """The interval for a number of units that was fixed before."""
    return _interval(sample, alpha, lambda t: sample.n)


def cs_betting(sample: Sample, alpha: float) -> Interval:
    """The confidence sequence after the units so far: it holds however often one looks."""
    return _interval(sample, alpha, lambda t: t * math.log1p(t))


def bets(values: Sequence[float], alpha: float, horizon: Callable[[int], float]) -> list[float]:
    """λ_t = sqrt(2 ln(2/α) / (horizon(t) · σ̂²_{t−1})), each from the values before it alone.

    Args:
        values: Between 0 and 1, in their order.
        horizon: From t, counted from 1: n for a fixed number, t ln(1 + t) for one without end.
    """
    twice_log = 2 * math.log(2 / alpha)
    total, squares, found = 0.5, 0.25, []
    for t, value in enumerate(values, start=1):
        found.append(math.sqrt(twice_log * t / (horizon(t) * squares)))
        total += value
        squares += (value - total / (t + 1)) ** 2
    return found


def _interval(sample: Sample, alpha: float, horizon: Callable[[int], float]) -> Interval:
    values = sample.in_hash_order().scaled()
    stakes, limit = bets(values, alpha, horizon), math.log(2 / alpha)
    low = _lower_end(values, stakes, limit)
    high = 1 - _lower_end([1 - value for value in values], stakes, limit)
    return between(sample, sample.reach.low + sample.reach.width * low, sample.reach.low + sample.reach.width * high)


def _lower_end(values: Sequence[float], stakes: Sequence[float], limit: float) -> float:
    """The largest mean known to be out; a bet on more than m pays less the larger m is, so one border divides them."""
    if not _pays(0.0, values, stakes, limit):
        return 0.0
    return bisect(lambda m: not _pays(m, values, stakes, limit), 0.0, 1.0, _STEPS) - 2.0**-_STEPS


def _pays(m: float, values: Sequence[float], stakes: Sequence[float], limit: float) -> bool:
    """Whether the capital of a bet that the mean is above m ever exceeds the limit; both as logarithms."""
    most = _MOST_STAKED / m if m > 0 else math.inf
    capital = 0.0
    for value, stake in zip(values, stakes, strict=True):
        capital += math.log1p((stake if stake < most else most) * (value - m))
        if capital > limit:
            return True
    return False
