"""Geometry of figures: an axis, an interval against its margin, and a metric's history.

Pure arithmetic on numbers, which others turn into SVG.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

WIDTH = 720.0
"""Of the interval figure, in SVG units."""
CURVE_WIDTH, CURVE_HEIGHT = 260.0, 36.0

_INSET = 24.0
_CURVE_INSET = 3.0
_NARROWEST, _WIDEST = 1e-9, 1e12
_CLOSE = 1e-9
"""Values no further apart than this share of their size are drawn as one."""
_SMALLEST, _LARGEST = 1e-300, 1e305
_FEWEST_DECIMALS, _MOST_DECIMALS = -5, 5
"""Of a step whose labels are written out; beyond, in powers of ten."""


class Point(NamedTuple):
    """A value of a metric's history."""

    place: int
    """Along the history; each is further right than the one before."""
    value: float


class Mark(NamedTuple):
    """A value of an axis that carries a label."""

    value: float
    label: str


@dataclass(frozen=True)
class Axis:
    """From one round value to another, with round steps between."""

    marks: tuple[Mark, ...]

    def place(self, value: float, start: float, stop: float) -> float:
        """Where a value lies when the axis is drawn from `start` to `stop`."""
        low, high = self.marks[0].value, self.marks[-1].value
        return round(start + (value - low) / (high - low) * (stop - start), 2)


@dataclass(frozen=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True)
class IntervalFigure:
    """Horizontal positions, in units of the figure's width, of an effect and its interval on a shared axis."""

    width: float
    effect: float
    lower: float
    upper: float
    margin: float
    zero: float
    ticks: tuple[Tick, ...]


def interval_figure(effect: float, lower: float, upper: float, margin: float) -> IntervalFigure | None:
    """Place an interval, its point estimate and the margin on one axis with room for all of them and for zero.

    None where they lie too close together or too far apart for a drawing to say anything.
    """
    marks = (effect, lower, upper, margin, 0.0)
    span = max(marks) - min(marks)
    if not _NARROWEST < span < _WIDEST:
        return None
    drawn = axis(min(marks), max(marks))
    assert drawn is not None, "this span is one that an axis has"

    def place(value: float) -> float:
        return drawn.place(value, _INSET, WIDTH - _INSET)

    ticks = tuple(Tick(place(mark.value), mark.label) for mark in drawn.marks)
    return IntervalFigure(WIDTH, place(effect), place(lower), place(upper), place(margin), place(0.0), ticks)


def axis(low: float, high: float, *, least_step: float = 0.0) -> Axis | None:
    """An axis with room for all values from `low` to `high`, which may be one and the same.

    None for numbers so small or so large that doubles leave no room around them.
    """
    largest = max(abs(low), abs(high))
    if high - low <= _CLOSE * largest:
        room = largest / 10 or 1.0
        low, high = low - room, high + room
    if high - low < _SMALLEST or largest > _LARGEST:
        return None
    step = max(_round_step(high - low), least_step)
    first, last = math.floor(low / step), math.ceil(high / step)
    return Axis(tuple(Mark(n * step, _label(n * step, step)) for n in range(first, last + 1)))


def curve_points(history: Sequence[Point]) -> str:
    """An SVG `points` list for a history drawn left to right, lowest value at the bottom; empty for fewer than two."""
    if len(history) < 2:
        return ""
    # Halves of the largest: the difference of two doubles need not be a double.
    largest = max(abs(point.value) for point in history) or 1.0
    scaled = [point.value / largest / 2 for point in history]
    low, spread = min(scaled), max(scaled) - min(scaled)
    first, length = history[0].place, history[-1].place - history[0].place

    def drawn(place: int, value: float) -> str:
        x = _CURVE_INSET + (place - first) / length * (CURVE_WIDTH - 2 * _CURVE_INSET)
        share = (value - low) / spread if spread else 0.5
        return f"{x:.1f},{CURVE_HEIGHT - _CURVE_INSET - share * (CURVE_HEIGHT - 2 * _CURVE_INSET):.1f}"

    return " ".join(drawn(point.place, value) for point, value in zip(history, scaled, strict=True))


def thinned(values: Sequence[float], most: int) -> Sequence[int]:
    """The places, at most `most` of them, from 4, that a long history is drawn from: both ends, and between them the
    lowest and the highest of equal stretches.

    A spike of a single value stays, which evenly spaced places would lose.
    """
    last, stretches = len(values) - 1, (most - 2) // 2
    if last < most:
        return range(len(values))
    bounds = [1 + n * (last - 1) // stretches for n in range(stretches + 1)]
    kept = {0, last}
    for start, stop in pairwise(bounds):
        kept.update(find(range(start, stop), key=values.__getitem__) for find in (min, max))
    return sorted(kept)


def _round_step(span: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that cuts `span` into five to eight pieces."""
    rough = span / 6
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough)


def _label(value: float, step: float) -> str:
    decimals = -math.floor(math.log10(step) + 1e-9)
    if not _FEWEST_DECIMALS <= decimals <= _MOST_DECIMALS:
        digits = math.floor(math.log10(abs(value)) + 1e-9) + decimals + 1 if value else 1
        return f"{value:.{digits}g}".replace("-", "−")
    digits = max(0, decimals)
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) != 0 else f"{0:.{digits}f}"
