"""The two-sided paired Hoeffding interval (Hoeffding 1963, Theorem 2), for clusters and finite populations too."""

import math

from research_exchange.statistics.intervals import Interval, around
from research_exchange.statistics.sample import Sample

__all__ = ["half_width", "paired_hoeffding", "sample_size"]


def half_width(n: float, width: float, alpha: float) -> float:
    """h = R · sqrt(ln(2/α) / (2n)).

    Args:
        n: Independent contrasts; for clusters of sizes m_c the effective number (Σ m_c)² / Σ m_c².
        width: R, the width of the range a contrast can lie in.
        alpha: Two-sided error probability.
    """
    return width * math.sqrt(math.log(2 / alpha) / (2 * n))


def sample_size(half_width: float, width: float, alpha: float) -> int:
    """The fewest independent contrasts whose half-width is not above the one given: R² ln(2/α) / (2h²), rounded up."""
    return math.ceil((width / half_width) ** 2 * math.log(2 / alpha) / 2)


def paired_hoeffding(sample: Sample, alpha: float) -> Interval:
    """The interval for the mean of independent contrasts; it may reach beyond the range and is not clipped."""
    return around(sample, half_width(_effective_number(sample), sample.reach.width, alpha) * _drawn(sample))


def _effective_number(sample: Sample) -> float:
    """Dependence inside a cluster may be complete, so a cluster counts by its share: (Σ m_c)² / Σ m_c²."""
    if not sample.clusters:
        return sample.n
    return sample.n**2 / sum(size**2 for size in sample.clusters)


def _drawn(sample: Sample) -> float:
    """√ρ of sampling without replacement (Serfling 1974; Bardenet & Maillard 2015): 0 for the whole population."""
    if sample.population is None:
        return 1.0
    n, whole = sample.n, sample.population
    return math.sqrt(min(1 - (n - 1) / whole, (1 - n / whole) * (1 + 1 / n)))
