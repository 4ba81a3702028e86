"""The paired Hoeffding interval against decision-statistics.md §1, §2, §6, and how contrasts are made."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research_exchange.statistics import (
    Range,
    Sample,
    contrast_range,
    contrasts,
    half_width,
    paired_hoeffding,
    sample_size,
    seed_contrasts,
)
from tests.research_exchange.rules.support import vectors

VECTORS = vectors("hoeffding")


@pytest.mark.parametrize("case", VECTORS["half_widths"], ids=str)
def test_half_width(case: dict[str, Any]) -> None:
    assert half_width(case["n"], case["width"], case["alpha"]) == pytest.approx(case["half_width"], abs=1e-9)


@pytest.mark.parametrize("case", VECTORS["sample_sizes"], ids=str)
def test_sample_size(case: dict[str, Any]) -> None:
    assert half_width(case["n"], 2, 0.05) <= case["half_width"] < half_width(case["n"] - 1, 2, 0.05)
    assert sample_size(case["half_width"], 2, 0.05) == case["n"]


@pytest.mark.parametrize("case", VECTORS["ranges"], ids=str)
def test_range_of_a_contrast(case: dict[str, Any]) -> None:
    weights = {f"arm{index}": weight for index, weight in enumerate(case["weights"])}
    reach = contrast_range(weights, *case["bounds"])
    assert [reach.low, reach.high] == case["range"]


@pytest.mark.parametrize("case", VECTORS["intervals"], ids=lambda case: str(case["id"]))
def test_interval(case: dict[str, Any]) -> None:
    interval = paired_hoeffding(Sample(case["contrasts"], Range(*case["range"])), 0.05)
    assert interval.effect == case["effect"]
    assert [interval.lower, interval.upper] == pytest.approx([case["lower"], case["upper"]], abs=1e-9)
    assert interval.n == len(case["contrasts"])


def test_seeds_are_averaged_inside_an_item() -> None:
    """V5: four items are four units, three seeds are three, and twelve rows are never twelve."""
    (case,) = VECTORS["seeds"]
    columns = {"t": list(zip(*case["treatment"], strict=True)), "b": list(zip(*case["baseline"], strict=True))}
    by_item = contrasts({"t": 1, "b": -1}, columns)
    assert by_item == pytest.approx(case["contrasts"])
    interval = paired_hoeffding(Sample(by_item, Range(-1, 1)), 0.05)
    assert interval.n == 4
    assert [interval.effect, interval.lower, interval.upper] == pytest.approx(
        [case["effect"], case["lower"], case["upper"]], abs=1e-9
    )
    assert seed_contrasts({"t": 1, "b": -1}, columns) == [0.25, 0, 0.5]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=50), st.randoms())
def test_the_order_of_items_does_not_matter(values: list[float], random: Any) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)
    reach = Range(-1, 1)
    assert paired_hoeffding(Sample(shuffled, reach), 0.05) == paired_hoeffding(Sample(values, reach), 0.05)


def test_the_interval_holds_its_promise_where_it_is_tightest() -> None:
    """±1 with equal odds is the worst case: the exact binomial tail beyond h stays within α."""
    n, alpha = 400, 0.05
    h = half_width(n, 2, alpha)
    beyond = sum(math.comb(n, wins) for wins in range(n + 1) if abs(2 * wins - n) / n >= h) / 2**n
    assert 0 < beyond <= alpha
