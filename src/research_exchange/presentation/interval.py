"""An interval against its margin, drawn."""

from research_exchange.decision import CriterionResult
from research_exchange.presentation.drawing import IntervalFigure, interval_figure
from research_exchange.presentation.figure import Figure
from research_exchange.presentation.words import signed

__all__ = ["interval_drawing"]

_HEIGHT, _TOP, _MIDDLE, _BASE = 78, 16, 35, 54
_ROOM_FOR_WORDS = 0.6
"""The share of the width up to which a margin leaves room for words beside it."""
_NEAR_THE_EDGE = 80


def interval_drawing(result: CriterionResult) -> Figure | None:
    """The effect with its interval, on one axis with the margin and zero; None where no drawing says anything."""
    places = interval_figure(result.effect, result.lower, result.upper, result.margin)
    if places is None:
        return None
    label = (
        f"Effect {signed(result.effect)}, interval {signed(result.lower)} to {signed(result.upper)}, "
        f"margin {signed(result.margin)}"
    )
    return Figure(places.width, _HEIGHT, label, "\n".join(_elements(places, signed(result.margin))))


def _elements(places: IntervalFigure, margin: str) -> list[str]:
    width, at = places.width, places.margin
    height = _BASE - _TOP
    beyond = f'<rect class="beyond" x="{at:g}" y="{_TOP}" width="{width - at:g}" height="{height}"/>'
    words = f'<text class="beyond-label" x="{width - 8:g}" y="11" text-anchor="end">above the margin</text>'
    anchor = "start" if at < _NEAR_THE_EDGE else "end" if at > width - _NEAR_THE_EDGE else "middle"
    return [
        beyond,
        *([words] if at < _ROOM_FOR_WORDS * width else []),
        f'<line class="axis" x1="0" x2="{width:g}" y1="{_BASE}" y2="{_BASE}"/>',
        *(
            _upright("axis", tick.x, _BASE, _BASE + 5)
            + f'<text x="{tick.x:g}" y="73" text-anchor="middle">{tick.label}</text>'
            for tick in places.ticks
        ),
        _upright("zero", places.zero, _TOP, _BASE),
        _upright("margin", at, _TOP, _BASE),
        f'<text class="margin-label" x="{at:g}" y="11" text-anchor="{anchor}">margin {margin}</text>',
        f'<line class="reach" x1="{places.lower:g}" x2="{places.upper:g}" y1="{_MIDDLE}" y2="{_MIDDLE}"/>',
        _upright("reach", places.lower, _MIDDLE - 6, _MIDDLE + 6),
        _upright("reach", places.upper, _MIDDLE - 6, _MIDDLE + 6),
        f'<circle class="effect" cx="{places.effect:g}" cy="{_MIDDLE}" r="6"/>',
    ]


def _upright(kind: str, x: float, top: float, bottom: float) -> str:
    return f'<line class="{kind}" x1="{x:g}" x2="{x:g}" y1="{top:g}" y2="{bottom:g}"/>'
