"""Curves from what a run logged: grouped by arm and seed, nothing lost without a word, nothing drawn outside."""

import math
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.bundles import documents_of
from research_exchange.reports.curves import MAX_CHARTS, MAX_CURVES, Chart, Curve, Curves, Spot, read_curves
from research_exchange.reports.line_chart import SERIES, line_chart, mean_of
from tests.research_exchange.reports.cases import File, bundled, jsonl
from tests.research_exchange.server import scenarios


def curves_of(*files: File, **changes: Any) -> Curves:
    exported = bundled(*files, **changes)
    return read_curves(documents_of(exported.record, exported.contents))


def named(curves: Curves) -> dict[str, list[str]]:
    return {chart.metric: [curve.name for curve in chart.curves] for chart in curves.charts}


def test_rows_are_grouped_by_arm_and_seed() -> None:
    rows = [
        {"step": step, "steps": 2, "arm": arm, "seed": seed, "reward": step / 2, "note": "x", "seconds_left": 1}
        for arm in ("b", "a")
        for seed in (10, 2)
        for step in (2, 1)
    ]
    found = curves_of(File("training.jsonl", jsonl(rows)))
    assert named(found) == {"reward": ["b, seed 2", "a, seed 2", "b, seed 10", "a, seed 10"]}
    assert found.charts[0].curves[0].spots == (Spot(1, 0.5), Spot(2, 1.0))
    assert found.notes == ()


def test_rows_without_an_arm_belong_to_their_file_and_a_later_row_replaces_an_earlier_one() -> None:
    """A training that went on from a checkpoint takes some steps again."""
    rows = [{"step": 1, "reward": 0.1}, {"step": 2, "reward": 0.2}, {"step": 2, "reward": 0.3}]
    found = curves_of(File("training.jsonl", jsonl(rows)))
    assert found.charts == (Chart("reward", (Curve("training.jsonl", None, (Spot(1, 0.1), Spot(2, 0.3))),)),)


def test_two_files_with_the_same_arm_and_seed_stay_apart() -> None:
    row = {"step": 1, "arm": "a", "seed": 0, "accuracy": 0.5}
    alone = {"step": 1, "arm": "a", "seed": 1, "accuracy": 0.5}
    found = curves_of(File("one.jsonl", jsonl([row, alone])), File("two.jsonl", jsonl([row])))
    assert named(found) == {"accuracy": ["a, one.jsonl, seed 0", "a, two.jsonl, seed 0", "a, seed 1"]}


def test_what_cannot_be_drawn_is_said() -> None:
    broken = File("broken.jsonl", b'{"step": 1, "loss": 2}\n{"step": 2, "loss": NaN}\n')
    item = {"step": 1, "item_id": "i", "reward": 1.0}
    mixed = File("mixed.jsonl", jsonl([{"step": 1, "reward": 0.5}, {"reward": 0.6}, {"step": True, "reward": 1}, item]))
    other = File("log.jsonl", jsonl([{"step": 1, "ignored": 1}]), "log")
    found = curves_of(broken, mixed, other, File("observations.jsonl", scenarios.observations(150)))
    assert list(named(found)) == ["loss", "reward"]
    unread, unplaced = found.notes
    assert unread.startswith("broken.jsonl cannot be read in full") and "Line 2" in unread
    assert unplaced == "3 rows of mixed.jsonl are not drawn: they name no step, or an item."


def test_a_run_that_retains_no_metrics_is_drawn_from_its_updates() -> None:
    updates = [scenarios.calibration(), *(scenarios.progress(step, step / 10) for step in (1, 2, 3))]
    found = curves_of(updates=updates)
    assert found.charts[0].curves[0].spots == (Spot(1, 0.1), Spot(2, 0.2), Spot(3, 0.3))
    assert found.notes[0].startswith("No metrics are retained in a file")


def test_more_metrics_and_curves_than_anybody_reads_are_counted() -> None:
    rows: list[dict[str, Any]] = [{"step": 1, **{f"m{n}": n for n in range(MAX_CHARTS + 2)}}]
    rows += [{"step": 1, "arm": f"arm {n}", "m0": n} for n in range(MAX_CURVES + 2)]
    found = curves_of(File("training.jsonl", jsonl(rows)))
    assert (len(found.charts), len(found.charts[0].curves)) == (MAX_CHARTS, MAX_CURVES)
    assert found.notes == ("2 more metrics are in the files.", "3 more curves of m0 are in the files.")


def test_the_mean_is_taken_where_every_seed_has_a_value() -> None:
    seeds = [Curve("a", "0", (Spot(1, 1.0), Spot(2, 3.0))), Curve("a", "1", (Spot(2, 5.0), Spot(3, 9.0)))]
    assert mean_of(seeds) == (Spot(2, 4.0),)


def drawn(chart: Chart, groups: list[str]) -> ElementTree.Element:
    figure = line_chart(chart, groups)
    assert figure is not None
    return ElementTree.fromstring(figure.file())


def classes(figure: ElementTree.Element, tag: str) -> list[str]:
    return [each.get("class", "") for each in figure.iter(f"{{http://www.w3.org/2000/svg}}{tag}")]


def test_every_seed_is_a_line_and_every_arm_a_thick_one() -> None:
    spots = tuple(Spot(step, step / 7) for step in range(30))
    chart = Chart("reward", tuple(Curve(arm, seed, spots) for arm in ("a", "b") for seed in ("0", "1", "2")))
    figure = drawn(chart, ["b", "a"])
    assert classes(figure, "polyline") == [
        *["single series-1"] * 3,
        "mean series-1",
        *["single series-2"] * 3,
        "mean series-2",
    ]
    title = figure.findtext("{http://www.w3.org/2000/svg}title")
    assert title == "reward by step: b 0 at step 0 to 4.143 at step 29; a 0 at step 0 to 4.143 at step 29"


def test_an_arm_looks_alike_in_every_chart() -> None:
    spots = (Spot(1, 0.0), Spot(2, 1.0))
    groups = [f"arm {n}" for n in range(SERIES)]
    figure = drawn(Chart("reward", (Curve("arm 4", None, spots),)), groups)
    assert set(classes(figure, "polyline")) == {"mean series-5"}


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), finite), min_size=1, max_size=40))
def test_whatever_the_numbers_a_curve_stays_inside_its_figure(rows: list[tuple[int, float]]) -> None:
    spots = tuple(Spot(step, value) for step, value in sorted(dict(rows).items()))
    figure = line_chart(Chart("m", (Curve("a", None, spots),)), ["a"])
    if figure is None:
        return
    root = ElementTree.fromstring(figure.file())
    places = [tuple(map(float, point.split(","))) for each in root.iter() for point in each.get("points", "").split()]
    places += [(float(each.get("cx", "")), float(each.get("cy", ""))) for each in root.iter() if each.get("cx")]
    assert places
    assert all(0 <= x <= figure.width and 0 <= y <= figure.height for x, y in places)


@pytest.mark.parametrize("values", [(0.0, 0.0), (1e-9, 3e-9), (5.0, 5.0), (-1e300, 1e300), (1.0, 1.0 + 1e-12)])
def test_constant_tiny_and_huge_values_are_drawn(values: tuple[float, float]) -> None:
    first, last = values
    figure = drawn(Chart("m", (Curve("a", None, (Spot(1, first), Spot(2, last))),)), ["a"])
    labels = [each.text or "" for each in figure.iter("{http://www.w3.org/2000/svg}text")]
    assert len(labels) == len(dict.fromkeys(labels)) >= 6, "no two marks of an axis read alike"


def test_numbers_beyond_a_drawing_are_not_drawn() -> None:
    assert line_chart(Chart("m", (Curve("a", None, (Spot(1, -1.7e308), Spot(2, math.pi * 5e307))),)), ["a"]) is None
