"""The quantity that is decided on: one weighted contrast per item, and the range it can lie in."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Range", "contrast_range", "contrasts", "mean", "seed_contrasts"]


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


def contrasts(weights: Mapping[str, float], columns: Mapping[str, Sequence[Sequence[float]]]) -> list[float]:
    """D_i = Σ_a w_a · mean over seeds of x_{a,i,s}: an item counts once, with the mean of its seeds.

    Args:
        weights: Arm to weight.
        columns: Arm to one column of values per scheduled seed, all in the same order of items.
    """
    weighted = [[weight * value for value in _over_seeds(columns[arm])] for arm, weight in weights.items()]
    return [math.fsum(terms) for terms in zip(*weighted, strict=True)]


def seed_contrasts(weights: Mapping[str, float], columns: Mapping[str, Sequence[Sequence[float]]]) -> list[float]:
    """D_s = Σ_a w_a · mean over items of x_{a,i,s}, one per seed: what another training run would change.

    Args:
        weights: Arm to weight.
        columns: Arm to one column of values per scheduled seed, the seeds in the same order.
    """
    return contrasts(weights, {arm: [[mean(column) for column in columns[arm]]] for arm in weights})


def mean(values: Sequence[float]) -> float:
    """The mean, from an exactly rounded sum: the order of the values does not matter."""
    return math.fsum(values) / len(values)


def _over_seeds(columns: Sequence[Sequence[float]]) -> Sequence[float]:
    return columns[0] if len(columns) == 1 else [mean(values) for values in zip(*columns, strict=True)]
