"""The power card: thresholds, chances, and whether a rule can come out at all (R-037)."""

import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from research_exchange.documents import canonical
from research_exchange.power import CriterionPower, PowerCard, power_card
from research_exchange.statistics import METHODS, PairTable, Range, Sample, Shape
from research_exchange.statistics.outlook import Outlook
from tests.research_exchange.rules.support import spec_of

WEIGHTS = {"treatment": 1, "baseline": -1}
ARMS = [{"name": "gs1", "role": "treatment"}, {"name": "grpo", "role": "baseline"}]


def card(n: int | None = 1319, discordance: float = 0.16, criteria: Any = None, **fields: Any) -> PowerCard:
    criterion = {"id": "main", "metric": "accuracy", "weights": WEIGHTS, "margin": -0.05, "bounds": [0, 1]}
    rule = {
        "version": 1,
        "unit": "fixed_checkpoint_items",
        "seeds": [0],
        "alpha": 0.05,
        "method": "paired_hoeffding",
        "criteria": [{**criterion, "id": f"c{i}", **each} for i, each in enumerate(criteria or [{}])],
        **fields,
    }
    spec = {"title": "T", "arms": ARMS, "eval": {"n_examples": n}, "decision_rule": rule}
    found = power_card(spec_of(spec), discordance=discordance)
    canonical(found.to_json())
    return found


def only(found: PowerCard) -> CriterionPower:
    (criterion,) = found.criteria
    return criterion


def test_the_rule_of_the_non_inferiority_seed() -> None:
    """decision-statistics §0: 33 net wins support, −165 refute, 2952 items for a half-width of 5 points."""
    criterion = only(card())
    assert (criterion.net_wins_to_support, criterion.net_wins_to_refute) == (33, -165)
    assert criterion.half_width == pytest.approx(0.074789362581, abs=1e-12)
    assert (criterion.n, criterion.n_for_margin) == (1319, 2952)
    assert criterion.effect_to_support == 33 / 1319
    assert (criterion.can_support, criterion.can_refute) == (True, True)


def test_chances_of_the_non_inferiority_seed() -> None:
    """Exact here; §8.1 has .000, .508 and .992 from 250 simulated runs for these effects."""
    chances = {chance.effect: chance for chance in only(card()).chances}
    assert sorted(chances) == [-0.05, -0.025, 0.0, 0.025, 0.05]
    spread = math.sqrt(1319 * 0.16)
    assert chances[0.0].supported == pytest.approx(stats.norm.sf(32.5 / spread), rel=0.02)
    assert chances[0.025].supported == pytest.approx(0.508, abs=0.04)
    assert chances[0.05].supported == pytest.approx(0.992, abs=0.01)
    assert chances[-0.05].refuted == pytest.approx(0, abs=1e-9)


def test_a_chance_is_what_a_simulation_shows() -> None:
    outlook = Outlook(METHODS["paired_hoeffding"], Range(-1, 1), 0.05, 60, 0.5)
    generator = random.Random(0)
    draws = [sum(generator.choices((1, -1, 0), (0.35, 0.15, 0.5), k=60)) for _ in range(4000)]
    for score in (-5, 8, 12, 20):
        above, below = outlook.chance(0.2, score, at_least=True), outlook.chance(0.2, score, at_least=False)
        assert above == pytest.approx(sum(draw >= score for draw in draws) / 4000, abs=0.025)
        assert below == pytest.approx(sum(draw <= score for draw in draws) / 4000, abs=0.025)
    assert outlook.chance(1.5, 0, at_least=True) is None


@pytest.mark.parametrize(("n", "discordance"), [(1, 0.16), (3, 0.01), (10, 0.01), (60, 0.5), (60, 1.0), (200, 0.16)])
def test_a_chance_is_the_sum_over_all_counts(n: int, discordance: float) -> None:
    """The discordant units are binomial, and so are the won ones among them."""
    outlook = Outlook(METHODS["paired_hoeffding"], Range(-1, 1), 0.05, n, discordance)
    for effect in (-discordance, 0.0, discordance / 3, discordance):
        share = (discordance + effect) / (2 * discordance)
        for score in range(-n, n + 1, max(1, n // 9)):
            exact = math.fsum(
                stats.binom.pmf(count, n, discordance)
                * stats.binom.sf(math.ceil((count + score) / 2) - 1, count, share)
                for count in range(n + 1)
            )
            assert outlook.chance(effect, score, at_least=True) == pytest.approx(exact, abs=1e-11)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("paired_t", "clopper_pearson", "wilson")])
def test_a_threshold_is_where_the_decision_changes(method: str) -> None:
    outlook = Outlook(METHODS[method], Range(-1, 1), 0.05, 301, 0.2)
    above, below = outlook.score_above(0.01), outlook.score_below(0.01)
    assert above is not None
    assert below is not None
    assert outlook.interval(above).lower > 0.01 >= outlook.interval(above - 1).lower
    assert outlook.interval(below).upper < 0.01 <= outlook.interval(below + 1).upper
    assert outlook.interval(above).effect == pytest.approx(outlook.effect(above))


def test_a_method_with_more_power_needs_fewer_wins() -> None:
    wins = [
        only(card(method=name)).net_wins_to_support
        for name in ("paired_hoeffding", "paired_empirical_bernstein", "paired_exact_discordant", "paired_tango")
    ]
    assert wins == [33, -2, -20, -37]
    assert only(card(method="paired_exact_discordant")).n_for_margin == 635


def test_a_sharper_method_is_named_where_it_could_be_used() -> None:
    (note,) = card().notes
    assert "paired_exact_discordant would support c0 from -20 net wins on and refute it up to -110" in note
    assert card(seeds=[0, 1]).notes == ()
    assert card(None).notes != card().notes


def test_a_rule_that_cannot_come_out() -> None:
    """Unfalsifiable, and unprovable: at 100 items no rows reach beyond a margin that near to the end."""
    low, high = only(card(100, criteria=[{"margin": -0.9}])), only(card(100, criteria=[{"margin": 0.9}]))
    assert (low.can_support, low.can_refute, low.net_wins_to_refute) == (True, False, None)
    assert (high.can_support, high.can_refute, high.net_wins_to_support) == (False, True, None)
    both = card(100, criteria=[{"margin": -0.9}, {"margin": 0.9}])
    assert (both.can_support, both.can_refute) == (False, False)
    assert all(chance.refuted == 0 for chance in low.chances)


def test_two_criteria_on_one_effect_from_both_sides() -> None:
    """Equivalence as two criteria: too few items to support it, and no rows ever make both fail."""
    turned = {"treatment": -1, "baseline": 1}
    found = card(criteria=[{"margin": -0.05}, {"margin": -0.05, "weights": turned}])
    assert [criterion.can_support for criterion in found.criteria] == [True, True]
    assert (found.can_support, found.can_refute) == (False, False)
    wider = card(criteria=[{"margin": -0.1}, {"margin": -0.1, "weights": turned}])
    assert (wider.can_support, wider.can_refute) == (True, False)
    half = {"treatment": -0.5, "baseline": 0.5}
    assert card(criteria=[{"margin": -0.1}, {"margin": -0.05, "weights": half}]).can_support is True
    assert card(criteria=[{"margin": 0.2}, {"margin": -0.3, "weights": half}]).can_support is True
    assert card(criteria=[{"margin": 0.2}, {"margin": -0.1, "weights": half}]).can_support is False


def test_a_tie_band_must_hold_the_interval() -> None:
    """decision-statistics §10: with hoeffding at 1319 items a band of ±.0748 at least."""
    ties = [only(card(criteria=[{"margin": 0, "tie_band": [-b, b]}])).can_tie for b in (0.0747, 0.0748)]
    assert ties == [False, True]
    assert only(card(criteria=[{"margin": 0.2, "tie_band": [-0.1, 0.1]}])).can_tie is False
    assert only(card()).can_tie is None


@pytest.mark.parametrize("margin", [0, 5e-324, -1e-300, 1e-7])
def test_a_margin_of_next_to_nothing_takes_more_items_than_there_are(margin: float) -> None:
    assert only(card(criteria=[{"margin": margin}])).n_for_margin is None


def test_one_arm_against_a_constant_counts_passed_items() -> None:
    criterion = only(card(100, method="clopper_pearson", criteria=[{"weights": {"treatment": 1}, "margin": 0.5}]))
    assert (criterion.net_wins_to_support, criterion.net_wins_to_refute) == (61, 39)
    assert criterion.effect_to_support == 0.61
    chance = {each.effect: each.supported for each in criterion.chances}
    assert sorted(chance) == [0.0, 0.25, 0.5]
    assert chance[0.5] == pytest.approx(stats.binom.sf(60, 100, 0.5))


def test_criteria_keep_their_place_and_their_level() -> None:
    found = card(criteria=[{"margin": -0.05}, {"margin": 0.5}], multiplicity="bonferroni")
    assert [criterion.id for criterion in found.criteria] == ["c0", "c1"]
    assert found.criteria[0].half_width == pytest.approx(0.081513606, abs=1e-9)
    assert found.multiplicity == "bonferroni"


def test_contrasts_that_are_no_pair_have_effects_but_no_wins() -> None:
    """V16: a difference of differences."""
    arms = [{"name": name} for name in "abcd"]
    weights = {"a": 1, "b": -1, "c": -1, "d": 1}
    spec = {
        "title": "T",
        "arms": arms,
        "decision_rule": {
            "version": 1,
            "unit": "fixed_checkpoint_items",
            "seeds": [0],
            "alpha": 0.05,
            "method": "paired_hoeffding",
            "criteria": [{"id": "d", "metric": "m", "weights": weights, "margin": 0, "bounds": [0, 1]}],
        },
    }
    criterion = only(power_card(spec_of(spec), n=1319))
    assert criterion.half_width == pytest.approx(0.149578725, abs=1e-9)
    assert criterion.net_wins_to_support is None
    assert criterion.effect_to_support == pytest.approx(0.149578725, abs=2 / 1319)


def test_training_seeds_say_how_wide_they_are() -> None:
    found = card(method="paired_t", unit="training_seeds", seeds=[0, 1, 2])
    assert (found.n, found.n_from, only(found).half_width) == (3, "decision_rule.seeds", None)
    assert (found.can_support, found.can_refute) == (True, True)
    assert any("2.484" in note for note in found.notes)


def test_clusters_and_populations_count() -> None:
    clusters = {f"q{i}": f"c{i // 2}" for i in range(1320)}
    assert only(card(1320, criteria=[{"cluster_by": clusters}])).half_width == pytest.approx(0.1057280596, abs=1e-9)
    items = [f"q{i}" for i in range(1319)]
    drawn = card(None, population={"items": items, "size": 500, "sample_seed": 1})
    assert drawn.n == 500
    assert only(drawn).half_width == pytest.approx(0.095777, abs=1e-6)


def test_what_a_card_says_without_numbers() -> None:
    unknown = card(None)
    assert (only(unknown).half_width, only(unknown).n_for_margin, unknown.can_support) == (None, 2952, None)
    assert "eval.n_examples" in unknown.notes[0]
    legacy = power_card(spec_of({"title": "T", "eval": {"n_examples": 500}}))
    assert (legacy.criteria, legacy.problems[0].rule) == ((), "R-14B")
    assert "0.1215" in legacy.notes[0]
    assert [problem.path for problem in card(method="mcnemar_exact").problems] == ["decision_rule.method"]
    assert [problem.rule for problem in card(60_000).problems] == ["R-142"]
    assert {problem.rule for problem in power_card(spec_of({"title": "T", "decision_rule": 7})).problems} == {"R-140"}


def test_roles_that_no_arm_has_do_not_empty_the_card() -> None:
    spec = {"title": "T", "arms": [{"name": "x"}], "eval": {"n_examples": 1319}}
    rule = {
        "version": 1,
        "unit": "fixed_checkpoint_items",
        "seeds": [0],
        "alpha": 0.05,
        "method": "paired_hoeffding",
        "criteria": [{"id": "c", "metric": "m", "weights": WEIGHTS, "margin": -0.05, "bounds": [0, 1]}],
    }
    found = power_card(spec_of({**spec, "decision_rule": rule}))
    assert only(found).net_wins_to_support == 33
    assert {problem.rule for problem in found.problems} == {"R-14C"}


def test_thresholds_of_order_dependent_methods_are_not_searched_for_without_bound() -> None:
    found = card(20_000, method="paired_betting")
    assert (only(found).net_wins_to_support, found.can_support, found.can_refute) == (None, True, True)
    assert any("order" in note for note in found.notes)


def test_the_page_of_methods_has_each_with_its_half_width() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "decision-methods.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d.]*) ?\|$", page, re.MULTILINE)
    assert [name for name, _ in rows] == list(METHODS)
    for name, width in rows:
        single = METHODS[name].shape is Shape.SINGLE
        outlook = Outlook(METHODS[name], Range(-1 + single, 1), 0.05, 1319, 0.16, single=single)
        if name != "paired_t":
            assert width == f"{outlook.interval(659 if single else 0).half_width:.4f}", name


def test_an_outlook_interleaves_what_an_ordered_method_reads() -> None:
    outlook = Outlook(METHODS["paired_betting"], Range(-1, 1), 0.05, 200, 0.2)
    spread = outlook.interval(0)
    grouped = METHODS["paired_betting"].interval(
        Sample([1.0] * 20 + [-1.0] * 20 + [0.0] * 160, Range(-1, 1), table=PairTable(80, 20, 20, 80)), 0.05
    )
    assert abs(spread.lower + spread.upper) < abs(grouped.lower + grouped.upper)
