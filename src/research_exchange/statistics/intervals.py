"""An estimate with its interval, as every method returns it."""

from dataclasses import dataclass

from research_exchange.statistics.contrasts import mean
from research_exchange.statistics.sample import Sample

__all__ = ["Interval", "around", "between"]


@dataclass(frozen=True)
class Interval:
    """A two-sided interval around an effect, in the metric's units, neither rounded nor clipped."""

    n: int
    """Independent units: items, never items times seeds or arms."""
    effect: float
    half_width: float
    """Half of the distance between the ends; not every method puts the effect in the middle."""
    lower: float
    upper: float


def around(sample: Sample, half_width: float) -> Interval:
    """The interval with the mean contrast in its middle."""
    effect = mean(sample.contrasts)
    return Interval(sample.n, effect, half_width, effect - half_width, effect + half_width)


def between(sample: Sample, lower: float, upper: float) -> Interval:
    """The interval with these ends; where they exclude every value, as a sequence may once in 1/α, it spans the gap."""
    lower, upper = min(lower, upper), max(lower, upper)
    return Interval(sample.n, mean(sample.contrasts), (upper - lower) / 2, lower, upper)
