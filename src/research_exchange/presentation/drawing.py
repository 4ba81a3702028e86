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


class Point(NamedTuple):
    """A value of a metric's history."""

    place: int
    """Along the history; each is further right than the one before."""
    value: float


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
    step = _round_step(span)
    start, stop = math.floor(min(marks) / step), math.ceil(max(marks) / step)

    def place(value: float) -> float:
        return round(_INSET + (value / step - start) / (stop - start) * (WIDTH - 2 * _INSET), 2)

    ticks = tuple(Tick(place(n * step), _label(n * step, step)) for n in range(start, stop + 1))
    return IntervalFigure(WIDTH, place(effect), place(lower), place(upper), place(margin), place(0.0), ticks)


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
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) != 0 else f"{0:.{digits}f}"
