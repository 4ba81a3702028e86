"""Intervals for two arms that succeed or fail on the same items: they look at the discordant pairs.

Each is computed for p10 − p01 and stretched to the range of the contrast.
"""

import math

from research_exchange.statistics.intervals import Interval, between
from research_exchange.statistics.proportions import Share, share_exact, share_wilson
from research_exchange.statistics.sample import PairTable, Sample
from research_exchange.statistics.special import bisect, normal_quantile

__all__ = ["difference_bonett_price", "paired_exact_discordant", "paired_newcombe", "paired_tango"]


def paired_exact_discordant(sample: Sample, alpha: float) -> Interval:
    """[CP_L(n10) − CP_U(n01), CP_U(n10) − CP_L(n01)], each Clopper–Pearson at 1 − α/2: valid for every n and order."""
    table = _table(sample)
    first = share_exact(table.first_only, table.n, alpha / 2)
    second = share_exact(table.second_only, table.n, alpha / 2)
    return _stretched(sample, (first[0] - second[1], first[1] - second[0]))


def paired_tango(sample: Sample, alpha: float) -> Interval:
    """All Δ that the score test does not reject (Tango 1998); asymptotic, good from some hundred items on."""
    table, z = _table(sample), normal_quantile(alpha)
    estimate = (table.first_only - table.second_only) / table.n
    lower = bisect(lambda delta: _excess(table, delta) <= z * _score_spread(table, delta), -1.0, estimate)
    upper = bisect(lambda delta: -_excess(table, delta) > z * _score_spread(table, delta), estimate, 1.0)
    return _stretched(sample, (lower, upper))


def paired_newcombe(sample: Sample, alpha: float) -> Interval:
    """Square-and-add of two Wilson intervals with a correlation (Newcombe 1998, method 10); asymptotic."""
    table = _table(sample)
    first, second = table.both + table.first_only, table.both + table.second_only
    p1, p2, phi = first / table.n, second / table.n, _correlation(table)
    low1, high1 = share_wilson(first, table.n, alpha)
    low2, high2 = share_wilson(second, table.n, alpha)
    lower = p1 - p2 - _added(p1 - low1, high2 - p2, phi)
    return _stretched(sample, (lower, p1 - p2 + _added(high1 - p1, p2 - low2, phi)))


def difference_bonett_price(table: PairTable, alpha: float) -> Share:
    """Wald on (n10 + 1, n01 + 1, n + 2) (Bonett & Price 2012); asymptotic, for display beside a decision."""
    n = table.n + 2
    p10, p01 = (table.first_only + 1) / n, (table.second_only + 1) / n
    spread = normal_quantile(alpha) * math.sqrt((p10 + p01 - (p10 - p01) ** 2) / n)
    return p10 - p01 - spread, p10 - p01 + spread


def _table(sample: Sample) -> PairTable:
    if sample.table is None:
        raise ValueError("This interval is for two arms that succeed or fail on every item.")
    return sample.table


def _stretched(sample: Sample, difference: Share) -> Interval:
    return between(sample, sample.reach.high * difference[0], sample.reach.high * difference[1])


def _excess(table: PairTable, delta: float) -> float:
    return table.first_only - table.second_only - table.n * delta


def _score_spread(table: PairTable, delta: float) -> float:
    """sqrt(n(2q̃ + Δ(1 − Δ))) with q̃ the likeliest p01 among those with p10 − p01 = Δ."""
    n, first_only, second_only = table.n, table.first_only, table.second_only
    a = 2 * n
    b = -first_only - second_only + (2 * n - first_only + second_only) * delta
    c = -second_only * delta * (1 - delta)
    q = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
    return math.sqrt(max(n * (2 * q + delta * (1 - delta)), 0.0))


def _correlation(table: PairTable) -> float:
    """φ, its numerator reduced by n/2 where it is positive, as in the method's continuity correction."""
    numerator = table.both * table.neither - table.first_only * table.second_only
    reduced = max(numerator - table.n / 2, 0.0) if numerator > 0 else numerator
    margins = (
        (table.both + table.first_only)
        * (table.second_only + table.neither)
        * (table.both + table.second_only)
        * (table.first_only + table.neither)
    )
    return reduced / math.sqrt(margins) if margins else 0.0


def _added(first: float, second: float, phi: float) -> float:
    return math.sqrt(max(first**2 - 2 * phi * first * second + second**2, 0.0))
