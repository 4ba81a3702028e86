"""Curves over steps, drawn: every seed as a thin line, and for each arm the mean of its seeds as a thick one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from research_exchange.presentation.drawing import Axis, axis, thinned
from research_exchange.presentation.figure import Figure, svg_text
from research_exchange.presentation.words import number
from research_exchange.reports.curves import Chart, Curve, Spot

__all__ = ["SERIES", "line_chart", "mean_of"]

SERIES = 6
"""Colours with dashes that the stylesheet has; a seventh group has those of the first."""
MAX_POINTS = 360
"""Of a line: two for each three units of its width."""
MAX_DOTS = 12
"""Points that are few enough to be marked one by one."""
MAX_GROUPS = 12
"""Named in the legend and in the label."""
_WIDTH, _HEIGHT = 720, 250
_LEFT, _RIGHT, _ABOVE, _BELOW = 72, 16, 8, 40
_LINE = 20
_LETTER = 7.4
"""Height of a line of the legend, and the width of a letter of it, roughly."""
_LONGEST_NAME = 40


@dataclass(frozen=True)
class _Plot:
    """The two axes and where they are drawn."""

    x: Axis
    y: Axis
    top: float
    bottom: float

    def across(self, step: float) -> float:
        return self.x.place(step, _LEFT, _WIDTH - _RIGHT)

    def up(self, value: float) -> float:
        return self.y.place(value, self.bottom, self.top)

    def points(self, spots: Sequence[Spot]) -> str:
        kept = (spots[place] for place in thinned([spot.value for spot in spots], MAX_POINTS))
        return " ".join(f"{self.across(spot.step):g},{self.up(spot.value):g}" for spot in kept)


def line_chart(chart: Chart, groups: Sequence[str]) -> Figure | None:
    """The curves of a metric; None where its numbers are too far apart, or too close to nothing, to be drawn.

    Args:
        chart: What to draw.
        groups: All groups of the run, each drawn alike in every chart.
    """
    spots = [spot for curve in chart.curves for spot in curve.spots]
    steps, values = [spot.step for spot in spots], [spot.value for spot in spots]
    is_whole = all(step == int(step) for step in steps)
    x = axis(min(steps), max(steps), least_step=1.0 if is_whole else 0.0)
    y = axis(min(values), max(values))
    if x is None or y is None:
        return None
    shown = [group for group in groups if any(curve.group == group for curve in chart.curves)]
    legend, lines = _legend(shown, groups)
    top = _ABOVE + lines * _LINE
    plot = _Plot(x, y, top, top + _HEIGHT)
    elements = [*legend, *_frame(plot)]
    for group in shown:
        series = _series(group, groups)
        elements += _drawn([curve for curve in chart.curves if curve.group == group], series, plot)
    return Figure(_WIDTH, plot.bottom + _BELOW, _label(chart, shown), "\n".join(elements))


def mean_of(curves: Sequence[Curve]) -> tuple[Spot, ...]:
    """The mean over the seeds, at the steps that every one of them has."""
    by_step = [dict(curve.spots) for curve in curves]
    steps = [step for step in by_step[0] if all(step in spots for spots in by_step)]
    return tuple(Spot(step, sum(spots[step] / len(by_step) for spots in by_step)) for step in steps)


def _series(group: str, groups: Sequence[str]) -> str:
    return f"series-{groups.index(group) % SERIES + 1}"


def _drawn(curves: Sequence[Curve], series: str, plot: _Plot) -> Iterator[str]:
    if len(curves) > 1:
        for curve in curves:
            yield from _line("single", series, curve.spots, curve.name, plot)
    mean = mean_of(curves)
    name = f"{curves[0].group}, mean of {len(curves)} seeds" if len(curves) > 1 else curves[0].name
    if mean:
        yield from _line("mean", series, mean, name, plot)


def _line(kind: str, series: str, spots: Sequence[Spot], name: str, plot: _Plot) -> Iterator[str]:
    title = f"<title>{svg_text(_cut(name))}</title>"
    if len(spots) > 1:
        yield f'<polyline class="{kind} {series}" points="{plot.points(spots)}">{title}</polyline>'
    if len(spots) <= MAX_DOTS:
        size = 3.5 if kind == "mean" else 2
        for spot in spots:
            at = f'cx="{plot.across(spot.step):g}" cy="{plot.up(spot.value):g}"'
            yield f'<circle class="dot {series}" {at} r="{size}">{title}</circle>'


def _frame(plot: _Plot) -> Iterator[str]:
    right = _WIDTH - _RIGHT
    for mark in plot.y.marks:
        at = plot.up(mark.value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:g}" y2="{at:g}"/>'
        yield f'<text x="{_LEFT - 8}" y="{at + 4:g}" text-anchor="end">{mark.label}</text>'
    for mark in plot.x.marks:
        at, base = plot.across(mark.value), plot.bottom
        yield f'<line class="axis" x1="{at:g}" x2="{at:g}" y1="{base:g}" y2="{base + 5:g}"/>'
        yield f'<text x="{at:g}" y="{base + 19:g}" text-anchor="middle">{mark.label}</text>'
    yield f'<text x="{right}" y="{plot.bottom + 35:g}" text-anchor="end">step</text>'


def _legend(shown: Sequence[str], groups: Sequence[str]) -> tuple[list[str], int]:
    """The elements, and how many lines they take."""
    elements, x, line = [], float(_LEFT), 0
    for group in shown[:MAX_GROUPS]:
        name = _cut(group)
        width = 44 + len(name) * _LETTER
        if x > _LEFT and x + width > _WIDTH - _RIGHT:
            x, line = _LEFT, line + 1
        y = _ABOVE + line * _LINE + 6
        elements.append(f'<line class="mean {_series(group, groups)}" x1="{x:g}" x2="{x + 28:g}" y1="{y}" y2="{y}"/>')
        elements.append(f'<text class="legend" x="{x + 34:g}" y="{y + 4}">{svg_text(name)}</text>')
        x += width
    return elements, line + 1


def _label(chart: Chart, shown: Sequence[str]) -> str:
    told = []
    for group in shown[:MAX_GROUPS]:
        spots = mean_of([curve for curve in chart.curves if curve.group == group])
        if spots:
            first, last = spots[0], spots[-1]
            course = f"{number(first.value)} at step {number(first.step)}"
            course += f" to {number(last.value)} at step {number(last.step)}" if len(spots) > 1 else ""
            told.append(f"{_cut(group)} {course}")
    return f"{_cut(chart.metric)} by step: {'; '.join(told)}" if told else f"{_cut(chart.metric)} by step"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
