"""The special functions behind exact and asymptotic intervals, in the standard library."""

import math
import sys
from collections.abc import Callable
from statistics import NormalDist

__all__ = ["bisect", "incomplete_beta", "incomplete_beta_inverse", "normal_quantile", "student_quantile"]

_TINY = 1e-300
_MOST_TERMS = 10_000
_MOST_STEPS = 2_000
"""More than it takes to halve down to the smallest double."""


def normal_quantile(alpha: float) -> float:
    """z_{1−α/2}, the normal value that is exceeded in absolute size with probability α."""
    return -NormalDist().inv_cdf(alpha / 2)


def student_quantile(alpha: float, freedom: int) -> float:
    """t_{1−α/2, ν}: with x = ν / (ν + t²), the two tails together hold I_x(ν/2, 1/2)."""
    x = incomplete_beta_inverse(freedom / 2, 0.5, alpha)
    return math.sqrt(freedom * (1 - x) / x)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), the regularized incomplete beta function: the Beta(a, b) probability of values up to x.

    Args:
        a, b: Positive.
        x: In [0, 1].
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b))
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(a, b, x) / a
    return 1 - front * _continued_fraction(b, a, 1 - x) / b


def incomplete_beta_inverse(a: float, b: float, probability: float) -> float:
    """The x with I_x(a, b) = probability, by Newton's method kept inside of what is known; halving where it strays."""
    low, high, x = 0.0, 1.0, a / (a + b)
    for _ in range(_MOST_STEPS):
        excess = incomplete_beta(a, b, x) - probability
        low, high = (low, x) if excess >= 0 else (x, high)
        slope = math.exp((a - 1) * math.log(x) + (b - 1) * math.log1p(-x) - _log_beta(a, b))
        following = x - excess / slope if slope > 0 else low
        if not low < following < high:
            following = low + (high - low) / 2
        if abs(following - x) <= 2 * sys.float_info.epsilon * x or not low < following < high:
            return following
        x = following
    return x


def bisect(holds: Callable[[float], bool], low: float, high: float, steps: int = 1_100) -> float:
    """The end of the range where a condition, false at `low`, comes to hold: rounded up to a double, or to `steps`."""
    for _ in range(steps):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Of the incomplete beta function, by Lentz's method; it converges fast for x < (a + 1) / (a + b + 2)."""
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
