"""Every decision method against decision-statistics.md §3, §5, §6, and against independent implementations."""

import math
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special, stats

from research_exchange.documents.decision_rule import SMALLEST_ALPHA
from research_exchange.statistics import METHODS, Guarantee, Interval, PairTable, Range, Sample, Shape, pair_table
from research_exchange.statistics.paired_proportions import difference_bonett_price, paired_tango
from research_exchange.statistics.proportions import mcnemar_exact, share_exact
from research_exchange.statistics.sampling import select_ids
from research_exchange.statistics.sequences import cs_asymptotic, mixture_half_width
from research_exchange.statistics.special import (
    incomplete_beta,
    incomplete_beta_inverse,
    normal_quantile,
    student_quantile,
)
from tests.research_exchange.rules.support import vectors

VECTORS = vectors("decision_methods")
TABLES = vectors("paired_tables_by_method")["cases"]
UNIT = Range(-1, 1)
SHAPES = {"paired_exact_discordant", "paired_tango", "paired_newcombe", "clopper_pearson", "wilson"}


def contrasts_of(value: Any) -> list[float]:
    if isinstance(value, list):
        return value
    if "table" in value:
        both, first, second, neither = value["table"]
        return [0.0] * both + [1.0] * first + [-1.0] * second + [0.0] * neither
    if "repeat" in value:
        return [value["repeat"]] * value["times"]
    return [1.0] * value["ones"] + [0.0] * value["zeros"]


def interval_of(method: str, sample: Sample, alpha: float = 0.05) -> Interval:
    return cs_asymptotic(sample, alpha) if method == "cs_asymptotic" else METHODS[method].interval(sample, alpha)


def sample_of(both: int, first: int, second: int, neither: int) -> Sample:
    values = contrasts_of({"table": [both, first, second, neither]})
    return Sample(values, UNIT, table=PairTable(both, first, second, neither))


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: f"{case['id']} {case['method']}")
def test_interval(case: dict[str, Any]) -> None:
    sample = Sample(
        contrasts_of(case["contrasts"]),
        Range(*case["range"]),
        table=PairTable(*case["table"]) if "table" in case else None,
        clusters=case.get("clusters", ()),
        population=case.get("population"),
    )
    interval = interval_of(case["method"], sample, case["alpha"])
    assert [interval.lower, interval.upper] == pytest.approx(
        [case["lower"], case["upper"]], abs=0.6 * 10 ** -case["digits"]
    )
    assert interval.half_width == pytest.approx((interval.upper - interval.lower) / 2)
    assert interval.n == sample.n


@pytest.mark.parametrize("case", TABLES, ids=lambda case: str(case["id"]))
def test_every_method_on_1319_items(case: dict[str, Any]) -> None:
    table = [case[key] for key in ("n11", "n10", "n01", "n00")]
    sample = Sample(
        contrasts_of({"table": table}), UNIT, [f"item-{index:04d}" for index in range(1319)], PairTable(*table)
    )
    for row in case["methods"]:
        interval = interval_of(row["method"], sample)
        assert [interval.lower, interval.upper] == pytest.approx([row["lower"], row["upper"]], abs=1.01e-6), row
        for margin in (-0.05, 0):
            state = "pass" if interval.lower > margin else "fail" if interval.upper < margin else "unsettled"
            assert state == row[f"at {margin}"], row
    assert mcnemar_exact(case["n10"], case["n01"]) == pytest.approx(case["mcnemar"], rel=5e-3)


@pytest.mark.parametrize("case", VECTORS["mcnemar"], ids=str)
def test_mcnemar(case: dict[str, Any]) -> None:
    assert mcnemar_exact(case["n10"], case["n01"]) == pytest.approx(case["p"], abs=1e-9)


@pytest.mark.parametrize("case", VECTORS["seed_multipliers"], ids=lambda case: f"{case['seeds']} seeds")
def test_what_few_seeds_cost(case: dict[str, Any]) -> None:
    values = [float(seed) / case["seeds"] for seed in range(case["seeds"])]
    interval = METHODS["paired_t"].interval(Sample(values, UNIT), 0.05)
    assert interval.half_width / statistics.stdev(values) == pytest.approx(case["multiplier"], abs=5.1e-4)


@pytest.mark.parametrize("case", VECTORS["bonett_price"], ids=str)
def test_bonett_price(case: dict[str, Any]) -> None:
    found = difference_bonett_price(PairTable(*case["table"]), 0.05)
    assert found == pytest.approx((case["lower"], case["upper"]), abs=1e-9)


def test_the_mixture_is_narrowest_near_the_number_it_was_planned_for() -> None:
    widths = {planned: mixture_half_width(1319, planned, 1, 0.05) for planned in (300, 1319, 6000)}
    assert widths[1319] == pytest.approx(0.083573, abs=1e-6)
    assert min(widths, key=widths.__getitem__) == 1319
    early = Sample([0.0] * 300, UNIT, planned=1319)
    assert interval_of("cs_normal_mixture", early).half_width == mixture_half_width(300, 1319, 1, 0.05)


@pytest.mark.parametrize("a", [0.5, 1, 3, 110, 1210, 40_000])
@pytest.mark.parametrize("b", [0.5, 1, 8, 1210, 60_000])
def test_incomplete_beta(a: float, b: float) -> None:
    for probability in (1e-12, 0.0125, 0.3, 0.975):
        x = incomplete_beta_inverse(a, b, probability)
        assert x == pytest.approx(special.betaincinv(a, b, probability), rel=1e-9)
        assert incomplete_beta(a, b, x) == pytest.approx(probability, rel=1e-8)
    assert incomplete_beta(a, b, 0.3) == pytest.approx(special.betainc(a, b, 0.3), rel=1e-8, abs=1e-300)


def test_quantiles() -> None:
    for alpha in (0.5, 0.05, 0.0125, 1e-9):
        assert normal_quantile(alpha) == pytest.approx(-stats.norm.ppf(alpha / 2), rel=1e-12)
        for freedom in (1, 2, 9, 1318):
            assert student_quantile(alpha, freedom) == pytest.approx(-stats.t.ppf(alpha / 2, freedom), rel=1e-9)


@pytest.mark.parametrize(("successes", "n"), [(0, 5), (3, 7), (77, 1319), (1319, 1319)])
def test_the_exact_share_leaves_its_tails_out(successes: int, n: int) -> None:
    low, high = share_exact(successes, n, 0.05)
    if successes:
        assert stats.binom.sf(successes - 1, n, low) == pytest.approx(0.025, rel=1e-9)
    if successes < n:
        assert stats.binom.cdf(successes, n, high) == pytest.approx(0.025, rel=1e-9)


def test_tango_ends_where_the_score_test_does() -> None:
    """The likeliest q with p10 − p01 = Δ is found here by search, not by formula."""
    table = PairTable(50, 40, 20, 50)
    interval = paired_tango(sample_of(50, 40, 20, 50), 0.05)
    for delta, score in ((interval.lower, 1.959964), (interval.upper, -1.959964)):
        candidates = [max(0.0, -delta) + step * 1e-5 for step in range(1, 50_000)]

        def likelihood(q: float, delta: float = delta) -> float:
            even = 1 - 2 * q - delta
            return -math.inf if even <= 0 else 40 * math.log(q + delta) + 20 * math.log(q) + 100 * math.log(even)

        q = max(candidates, key=likelihood)
        found = (20 - table.n * delta) / math.sqrt(table.n * (2 * q + delta * (1 - delta)))
        assert found == pytest.approx(score, abs=1e-3)


def test_ordered_methods_read_items_in_the_order_of_their_hashes() -> None:
    values, names = [1.0] * 20 + [0.0] * 20 + [-1.0] * 10, [f"q{index}" for index in range(50)]
    forwards = Sample(values, UNIT, names)
    backwards = Sample(values[::-1], UNIT, names[::-1])
    as_given = Sample(values, UNIT), Sample(values[::-1], UNIT)
    for name, method in METHODS.items():
        if method.shape is not Shape.ANY:
            continue
        assert method.interval(forwards, 0.05) == method.interval(backwards, 0.05), name
        assert method.ordered == (method.interval(as_given[0], 0.05) != method.interval(as_given[1], 0.05)), name


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_the_end_of_a_betting_interval_is_where_a_bet_pays(values: list[float]) -> None:
    """The capital is multiplied out here: it passes 2/α at the lower end, and no longer a hair above."""
    low = METHODS["paired_betting"].interval(Sample(values, Range(0, 1)), 0.05).lower
    bets, total, squares = [], 0.5, 0.25
    for t, value in enumerate(values, start=1):
        bets.append(math.sqrt(2 * math.log(40) / (len(values) * squares / t)))
        total += value
        squares += (value - total / (t + 1)) ** 2

    def most(m: float) -> float:
        capital, highest = 1.0, 1.0
        for value, bet in zip(values, bets, strict=True):
            capital *= 1 + min(bet, 0.5 / m) * (value - m)
            highest = max(highest, capital)
        return highest

    assert low == 0 or most(low) > 40
    assert most(low + 2e-11) <= 40 * (1 + 1e-9)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.shape is Shape.ANY])
@settings(max_examples=30, deadline=None)
@example(values=[1.0] + 7 * [0.0], low=0.0, width=1.0, alpha=0.999)
@given(
    values=st.lists(st.floats(0, 1), min_size=3, max_size=30),
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    alpha=st.sampled_from([SMALLEST_ALPHA, 1e-9, 0.05, 0.999]),
)
def test_units_of_the_metric_do_not_matter(
    name: str, values: list[float], low: float, width: float, alpha: float
) -> None:
    """Every interval is finite, around what the data say, and stretches with the metric."""
    if name == "paired_t":
        alpha = max(alpha, 1e-6)  # below that it magnifies the rounding of equal values beyond all tolerance
    plain = METHODS[name].interval(Sample(values, Range(0, 1)), alpha)
    moved = METHODS[name].interval(Sample([low + width * v for v in values], Range(low, low + width)), alpha)
    assert all(map(math.isfinite, (plain.lower, plain.upper, moved.lower, moved.upper)))
    assert plain.lower <= plain.upper
    tolerance = 1e-6 * (width + abs(low)) * max(1.0, plain.half_width)
    assert moved.lower == pytest.approx(low + width * plain.lower, abs=tolerance)
    assert moved.upper == pytest.approx(low + width * plain.upper, abs=tolerance)


@settings(max_examples=50, deadline=None)
@given(st.tuples(*[st.integers(0, 60)] * 4), st.sampled_from([1e-60, 0.01, 0.05, 0.5]))
def test_pair_methods_mirror_when_the_arms_change_places(table: tuple[int, int, int, int], alpha: float) -> None:
    both, first, second, neither = table
    if not any(table):
        return
    for name in ("paired_exact_discordant", "paired_tango", "paired_newcombe"):
        one = METHODS[name].interval(sample_of(both, first, second, neither), alpha)
        other = METHODS[name].interval(sample_of(both, second, first, neither), alpha)
        assert [one.lower, one.upper] == pytest.approx([-other.upper, -other.lower], abs=1e-9), name
        assert -1.0000001 <= one.lower <= one.effect + 1e-12, name
        assert one.effect - 1e-12 <= one.upper <= 1.0000001, name


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.sampled_from([0.03, 0.2, 0.5]))
def test_the_exact_discordant_interval_keeps_its_promise(n: int, p: float) -> None:
    """One-sided discordance, where asymptotic intervals fail: coverage is summed over every possible table."""
    covered = 0.0
    for losses in range(n + 1):
        interval = METHODS["paired_exact_discordant"].interval(sample_of(0, 0, losses, n - losses), 0.05)
        if interval.lower <= -p <= interval.upper:
            covered += float(stats.binom.pmf(losses, n, p))
    assert covered >= 0.95


def test_a_pair_table_counts_only_failures_and_successes() -> None:
    assert pair_table([1, 1.0, 0, 0], [1, 0, 1, 0], 0, 1) == PairTable(1, 1, 1, 1)
    assert pair_table([100, 0], [0, 0], 0, 100) == PairTable(0, 1, 0, 1)
    assert pair_table([1, 0.5], [1, 0], 0, 1) is None


def test_what_a_method_is_registered_as() -> None:
    assert set(METHODS) >= SHAPES | {"paired_hoeffding", "paired_betting", "paired_empirical_bernstein", "paired_t"}
    assert {name for name, method in METHODS.items() if method.shape is not Shape.ANY} == SHAPES
    assert {name for name, method in METHODS.items() if method.guarantee is Guarantee.ANYTIME} == {
        "cs_normal_mixture",
        "cs_empirical_bernstein",
        "cs_betting",
    }
    assert (METHODS["paired_t"].units, METHODS["paired_t"].guarantee) == (("training_seeds",), "conditional")


def test_a_random_selection_can_be_repeated() -> None:
    """R-193"""
    ids = [f"q{index}" for index in range(50)]
    chosen = select_ids(ids, 5, 7)
    assert chosen == select_ids(reversed(ids), 5, 7) == select_ids(ids, 20, 7)[:5]
    assert chosen != select_ids(ids, 5, 8)


def test_the_examples_on_the_page_run() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "decision-methods.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "decision-methods.md", "exec"), {})
