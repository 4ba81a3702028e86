"""Intervals for a share of successes, and McNemar's test: the parts that exact paired intervals are made of."""

import math

from research_exchange.statistics.intervals import Interval, between
from research_exchange.statistics.sample import Sample
from research_exchange.statistics.special import incomplete_beta_inverse, normal_quantile

__all__ = ["Share", "clopper_pearson", "mcnemar_exact", "share_exact", "share_wilson", "wilson"]

Share = tuple[float, float]
"""The lower and the upper end of an interval for a probability."""


def share_exact(successes: int, n: int, alpha: float) -> Share:
    """The Clopper–Pearson interval: α/2 of the exact binomial distribution beyond each end."""
    lower = _lower(successes, n, alpha / 2)
    return lower, 1 - _lower(n - successes, n, alpha / 2)


def share_wilson(successes: int, n: int, alpha: float) -> Share:
    """The Wilson score interval, asymptotic."""
    z2 = normal_quantile(alpha) ** 2
    center = (successes + z2 / 2) / (n + z2)
    spread = math.sqrt(z2 * (successes * (n - successes) / n + z2 / 4)) / (n + z2)
    return max(center - spread, 0.0), min(center + spread, 1.0)


def clopper_pearson(sample: Sample, alpha: float) -> Interval:
    """The exact interval of one arm whose contrasts lie at the ends of their range."""
    return _on_range(sample, share_exact(_successes(sample), sample.n, alpha))


def wilson(sample: Sample, alpha: float) -> Interval:
    """The score interval of one arm whose contrasts lie at the ends of their range."""
    return _on_range(sample, share_wilson(_successes(sample), sample.n, alpha))


def mcnemar_exact(first_only: int, second_only: int) -> float:
    """p = min(1, 2 · P(Bin(n10 + n01, ½) ≤ min(n10, n01))): is there any difference? It cannot settle a margin."""
    discordant = first_only + second_only
    tail = term = 1
    for wins in range(min(first_only, second_only)):
        term = term * (discordant - wins) // (wins + 1)
        tail += term
    return min(1.0, tail / 2 ** (discordant - 1) if discordant else 1.0)


def _successes(sample: Sample) -> int:
    return sum(contrast == sample.reach.high for contrast in sample.contrasts)


def _on_range(sample: Sample, share: Share) -> Interval:
    low, width = sample.reach.low, sample.reach.width
    return between(sample, low + width * share[0], low + width * share[1])


def _lower(successes: int, n: int, tail: float) -> float:
    return 0.0 if successes == 0 else incomplete_beta_inverse(successes, n - successes + 1, tail)
