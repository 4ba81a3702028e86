"""An estimate with its interval, as every method returns it."""

from dataclasses import dataclass

__all__ = ["Interval"]


@dataclass(frozen=True)
class Interval:
    """A two-sided interval around an effect, in the metric's units, neither rounded nor clipped."""

    n: int
    """Independent units: items, never items times seeds or arms."""
    effect: float
    half_width: float
    lower: float
    upper: float
