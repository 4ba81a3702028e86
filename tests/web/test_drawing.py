"""The geometry of the figures, and that the colours can be read."""

import math
import re
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.presentation.drawing import WIDTH, Point, curve_points, interval_figure, thinned
from research_exchange.presentation.figure import figure_style
from research_exchange.presentation.words import contrast_text, number, signed, size

finite = st.floats(allow_nan=False, allow_infinity=False)


def test_an_interval_and_its_margin_keep_their_order_and_proportion() -> None:
    figure = interval_figure(effect=0.5, lower=0.25, upper=0.75, margin=0.0)
    assert figure is not None
    assert figure.zero == figure.margin
    assert figure.effect - figure.lower == pytest.approx(figure.upper - figure.effect, abs=0.02)
    assert figure.lower - figure.zero == pytest.approx((figure.upper - figure.zero) / 3, abs=0.02)
    assert [tick.label for tick in figure.ticks] == ["0.0", "0.2", "0.4", "0.6", "0.8"]


def test_an_axis_reads_like_one() -> None:
    figure = interval_figure(effect=-300.0, lower=-1000.0, upper=400.0, margin=50.0)
    assert figure is not None
    assert [tick.label for tick in figure.ticks] == ["−1000", "−500", "0", "500"]


@given(finite, finite, finite, finite)
def test_whatever_the_numbers_a_figure_stays_inside_itself(a: float, b: float, c: float, margin: float) -> None:
    lower, effect, upper = sorted((a, b, c))
    figure = interval_figure(effect, lower, upper, margin)
    if figure is not None:
        marks = (figure.lower, figure.effect, figure.upper, figure.margin, figure.zero)
        assert all(0 <= x <= WIDTH for x in marks)
        assert figure.lower <= figure.effect <= figure.upper
        assert 2 <= len(figure.ticks) <= 14


def test_numbers_too_far_apart_to_draw_are_not_drawn() -> None:
    assert interval_figure(0.0, 0.0, 0.0, 0.0) is None
    assert interval_figure(0.0, -1e300, 1e300, 0.0) is None


def history(values: list[float], every: int = 1) -> list[Point]:
    return [Point(1 + number * every, value) for number, value in enumerate(values)]


@given(st.lists(finite, max_size=50))
def test_every_point_of_a_curve_is_a_number(values: list[float]) -> None:
    points = curve_points(history(values)).split()
    assert len(points) == (len(values) if len(values) > 1 else 0)
    assert all(math.isfinite(float(x)) for point in points for x in point.split(","))


def test_a_rising_history_rises() -> None:
    heights = [float(point.split(",")[1]) for point in curve_points(history([1.0, 2.0, 4.0])).split()]
    assert heights == sorted(heights, reverse=True)
    assert len(set(heights)) == 3


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (200, "200"),
        (-0.00996, "−0.00996"),
        (1234567.0, "1.235e+06"),
        (12345, "12,345"),
        (0.681712, "0.6817"),
    ],
)
def test_numbers_are_short_and_exact_enough(value: float, shown: str) -> None:
    assert number(value) == shown


def test_differences_carry_their_sign() -> None:
    assert [signed(value) for value in (0.75, -0.192)] == ["+0.75", "−0.192"]


def test_sizes_have_a_unit_that_suits() -> None:
    assert [size(n) for n in (0, 1023, 1536, 10 * 1024 * 1024)] == ["0 B", "1023 B", "1.5 KiB", "10.0 MiB"]


def test_a_contrast_reads_as_a_difference() -> None:
    assert contrast_text({"trained": 1, "untrained": -1}) == "trained − untrained"
    assert contrast_text({"a": 0.5, "b": 0.5, "c": -1.0}) == "0.5 × a + 0.5 × b − c"
    assert contrast_text({"b": -1, "a": 1}) == "− b + a"


def _palettes() -> list[dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", figure_style(), re.DOTALL)
    return [dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block)) for block in blocks]


def _linear(colour: str) -> list[float]:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def _product(row: Sequence[float], values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(row, values, strict=True))


def _luminance(colour: str) -> float:
    return _product((0.2126, 0.7152, 0.0722), _linear(colour))


@pytest.mark.parametrize("palette", _palettes(), ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "paper"),
    [(ink, "paper") for ink in ("ink", "soft", "faint", "accent", "good", "bad", "care")]
    + [
        ("good", "good-wash"),
        ("bad", "bad-wash"),
        ("care", "care-wash"),
        ("soft", "plain-wash"),
        ("soft", "care-wash"),
    ],
)
def test_text_stands_out_from_its_ground(palette: dict[str, str], ink: str, paper: str) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1."""
    light, dark = sorted((_luminance(palette[ink]), _luminance(palette[paper])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


@given(st.lists(finite, max_size=200), st.integers(4, 40))
def test_a_thinned_history_keeps_its_ends_and_its_extremes(values: list[float], most: int) -> None:
    places = list(thinned(values, most))
    assert places == sorted(set(places))
    assert len(places) <= max(most, len(values) if len(values) <= most else 0)
    if values:
        assert {0, len(values) - 1} <= set(places)
        kept = [values[place] for place in places]
        assert (min(kept), max(kept)) == (min(values), max(values))


def test_a_curve_lies_where_its_updates_are() -> None:
    """A value that stood for long takes the room of that time."""
    points = [Point(1, 0.0), Point(2, 1.0), Point(9, 0.5)]
    first, second, last = (float(point.split(",")[0]) for point in curve_points(points).split())
    assert second - first == pytest.approx((last - first) / 8, abs=0.1)


@pytest.mark.parametrize("palette", _palettes(), ids=["light", "dark"])
def test_every_arm_stands_out_from_the_ground(palette: dict[str, str]) -> None:
    """WCAG 2.2, 1.4.11: 3 to 1."""
    series = [colour for name, colour in palette.items() if name.startswith("series-")]
    assert len(set(series)) == 6
    for colour in series:
        light, dark = sorted((_luminance(colour), _luminance(palette["paper"])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3


Rgb = tuple[float, float, float]
SIGHT: dict[str, tuple[Rgb, Rgb, Rgb]] = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
"""What reaches the eye of linear RGB (Machado, Oliveira and Fernandes 2009, at full severity)."""
XYZ = ((0.4339, 0.3762, 0.1899), (0.2127, 0.7152, 0.0722), (0.0178, 0.1095, 0.8727))
"""Of linear RGB, relative to the white D65."""


def _seen(colour: str, sight: tuple[Rgb, Rgb, Rgb]) -> list[float]:
    """CIELAB of a colour, as somebody with this sight sees it."""
    seen = [min(1.0, max(0.0, _product(row, _linear(colour)))) for row in sight]
    x, y, z = (
        math.cbrt(value) if value > 0.008856 else 7.787 * value + 16 / 116
        for value in (_product(row, seen) for row in XYZ)
    )
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


@pytest.mark.parametrize("palette", _palettes(), ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_no_two_arms_look_alike_to_anybody(palette: dict[str, str], sight: str) -> None:
    seen = [_seen(colour, SIGHT[sight]) for name, colour in palette.items() if name.startswith("series-")]
    assert min(math.dist(one, other) for one, other in combinations(seen, 2)) > 25
