"""Intervals that look at the variance: empirical Bernstein for bounded contrasts, Student's t for normal ones."""

import math
from collections.abc import Sequence

from research_exchange.statistics.contrasts import mean
from research_exchange.statistics.intervals import Interval, around
from research_exchange.statistics.sample import Sample
from research_exchange.statistics.special import student_quantile

__all__ = ["paired_empirical_bernstein", "paired_t", "squared_deviations"]


def paired_empirical_bernstein(sample: Sample, alpha: float) -> Interval:
    """h = sqrt(2 V ln(4/α) / n) + 7 R ln(4/α) / (3(n − 1)) (Maurer & Pontil 2009, Theorem 4 on each side).

    Needs at least two contrasts. V is their unbiased variance.
    """
    n, log = sample.n, math.log(4 / alpha)
    spread = math.sqrt(2 * _variance(sample.contrasts) * log / n)
    return around(sample, spread + 7 * sample.reach.width * log / (3 * (n - 1)))


def paired_t(sample: Sample, alpha: float) -> Interval:
    """D̄ ± t_{1−α/2, n−1} · sqrt(V / n), exact where contrasts are normal. Needs at least two."""
    n = sample.n
    return around(sample, student_quantile(alpha, n - 1) * math.sqrt(_variance(sample.contrasts) / n))


def squared_deviations(values: Sequence[float]) -> float:
    """Σ (x − x̄)²"""
    center = mean(values)
    return math.fsum((value - center) ** 2 for value in values)


def _variance(values: Sequence[float]) -> float:
    return squared_deviations(values) / (len(values) - 1)
