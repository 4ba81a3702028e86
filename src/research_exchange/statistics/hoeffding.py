"""The two-sided paired Hoeffding interval (Hoeffding 1963, Theorem 2)."""

import math
from collections.abc import Sequence

from research_exchange.statistics.contrasts import Range, mean
from research_exchange.statistics.intervals import Interval

__all__ = ["half_width", "paired_hoeffding"]


def half_width(n: float, width: float, alpha: float) -> float:
    """h = R · sqrt(ln(2/α) / (2n)).

    Args:
        n: Independent contrasts; for clusters of sizes m_c the effective number (Σ m_c)² / Σ m_c².
        width: R, the width of the range a contrast can lie in.
        alpha: Two-sided error probability.
    """
    return width * math.sqrt(math.log(2 / alpha) / (2 * n))


def paired_hoeffding(contrasts: Sequence[float], contrast_range: Range, alpha: float) -> Interval:
    """The interval for the mean of independent contrasts; it may reach beyond the range and is not clipped."""
    effect = mean(contrasts)
    h = half_width(len(contrasts), contrast_range.width, alpha)
    return Interval(n=len(contrasts), effect=effect, half_width=h, lower=effect - h, upper=effect + h)
