"""Confidence sequences: intervals that hold at every look, so that partial results may be inspected.

Betting's own stands with its interval in `betting`.
"""

import math
from collections.abc import Sequence

from research_exchange.statistics.betting import bets
from research_exchange.statistics.intervals import Interval, around, between
from research_exchange.statistics.sample import Sample
from research_exchange.statistics.variance import squared_deviations

__all__ = ["cs_asymptotic", "cs_empirical_bernstein", "cs_normal_mixture", "mixture_half_width"]

_LARGEST_BET = 0.5


def mixture_half_width(t: int, planned: int, deviation: float, alpha: float) -> float:
    """The normal mixture (Howard et al. 2021): σ · sqrt(2(tρ² + 1) / (t²ρ²) · ln(sqrt(tρ² + 1) / α)).

    Args:
        t: Units so far.
        planned: Units at which the sequence shall be narrowest; it sets ρ² = (−2 ln α + ln(1 − 2 ln α)) / planned.
        deviation: σ, the largest standard deviation a unit can have.
        alpha: Two-sided error probability, over all looks together.
    """
    log = -2 * math.log(alpha)
    rho2 = (log + math.log1p(log)) / planned
    spread = t * rho2 + 1
    return deviation * math.sqrt(2 * spread / (t * t * rho2) * (math.log(spread) / 2 - math.log(alpha)))


def cs_normal_mixture(sample: Sample, alpha: float) -> Interval:
    """For bounded contrasts, which are sub-Gaussian with σ = R/2."""
    return around(sample, mixture_half_width(sample.n, _planned(sample), sample.reach.width / 2, alpha))


def cs_asymptotic(sample: Sample, alpha: float) -> Interval:
    """The mixture with the standard deviation of the data (Waudby-Smith et al. 2024): for display, not to decide."""
    deviation = math.sqrt(squared_deviations(sample.contrasts) / sample.n)
    return around(sample, mixture_half_width(sample.n, _planned(sample), deviation, alpha))


def cs_empirical_bernstein(sample: Sample, alpha: float) -> Interval:
    """The predictable mixture (Waudby-Smith & Ramdas 2024, Theorem 2), units in the order of their hashed names.

    What an earlier look ruled out stays out.
    """
    values = sample.in_hash_order().scaled()
    stakes = [min(bet, _LARGEST_BET) for bet in bets(values, alpha, lambda t: t * math.log1p(t))]
    limit = math.log(2 / alpha)
    low = _highest_lower_end(values, stakes, limit)
    high = 1 - _highest_lower_end([1 - value for value in values], stakes, limit)
    return between(sample, sample.reach.low + sample.reach.width * low, sample.reach.low + sample.reach.width * high)


def _highest_lower_end(values: Sequence[float], stakes: Sequence[float], limit: float) -> float:
    """Over all looks, (Σ λX − Σ (X − X̄ before)² (−ln(1 − λ) − λ) − limit) / Σ λ, never below 0."""
    highest = total = staked = evidence = 0.0
    for before, (value, stake) in enumerate(zip(values, stakes, strict=True)):
        expected = total / before if before else 0.0
        evidence += stake * value - (value - expected) ** 2 * (-math.log1p(-stake) - stake)
        staked += stake
        total += value
        highest = max(highest, (evidence - limit) / staked)
    return highest


def _planned(sample: Sample) -> int:
    return sample.planned or sample.n
