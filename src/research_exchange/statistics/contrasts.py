"""The quantity that is decided on: one weighted contrast per item, and the range it can lie in."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Range", "contrast", "contrast_range", "mean"]


@dataclass(frozen=True)
class Range:
    """The values a contrast can take, L to U."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


def contrast_range(weights: Mapping[str, float], low: float, high: float) -> Range:
    """L = Σ_{w>0} w·lo + Σ_{w<0} w·hi and U = Σ_{w>0} w·hi + Σ_{w<0} w·lo, so that U − L = (hi − lo) Σ|w|.

    Args:
        weights: Arm to weight.
        low, high: Bounds of the metric, in its own units.
    """
    positive = [weight for weight in weights.values() if weight > 0]
    negative = [weight for weight in weights.values() if weight < 0]
    return Range(
        low=math.fsum([w * low for w in positive] + [w * high for w in negative]),
        high=math.fsum([w * high for w in positive] + [w * low for w in negative]),
    )


def contrast(weights: Mapping[str, float], values: Mapping[str, Sequence[float]]) -> float:
    """D_i = Σ_a w_a · mean over seeds of x_{a,i,s}: seeds are averaged inside an item before anything else.

    Args:
        weights: Arm to weight.
        values: Arm to this item's values, one per scheduled seed.
    """
    return math.fsum(weight * mean(values[arm]) for arm, weight in weights.items())


def mean(values: Sequence[float]) -> float:
    """The mean, from an exactly rounded sum: the order of the values does not matter."""
    return math.fsum(values) / len(values)
