"""What a decision rule may ask for, and what it decides: methods, units, clusters, populations, several criteria."""

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.decision import Decision, decide
from research_exchange.documents import canonical
from research_exchange.documents.decision_rule import parse_decision_rule
from research_exchange.power import power_card
from research_exchange.statistics import METHODS, SEEDS, Shape, select_ids
from tests.research_exchange.rules.grids import report, table
from tests.research_exchange.rules.support import spec_of, vectors

CASES = {case["name"]: case for case in vectors("decision_rules")["cases"]}
ARMS = [{"name": "t", "role": "treatment"}, {"name": "b", "role": "baseline"}]


def decided(case: dict[str, Any]) -> Decision:
    values: dict[str, dict[int, list[float]]] = {arm: {} for arm in case.get("arms", ("t", "b"))}
    for seed, counts in case["tables"].items():
        columns = table(*counts)
        for arm in values:
            values[arm][int(seed)] = columns[arm][0]
    if "value" in case:
        values["t"][0][0] = case["value"]
    population = case["decision_rule"].get("population")
    items = (
        list(select_ids(population["items"], population["size"], population["sample_seed"])) if "draw" in case else None
    )
    rows, evaluation = report({"accuracy": values}, items)
    return decide(spec_of({"title": "T", "arms": ARMS, "decision_rule": case["decision_rule"]}), rows, evaluation)


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    """R-140, R-145, R-149, R-14A"""
    case = CASES[name]
    expect = case["expect"]
    decision = decided(case)
    assert (decision.status, decision.verdict, decision.outcome_reason) == (
        expect["status"],
        expect["verdict"],
        expect["reason"],
    )
    if "rule" in expect:
        assert (decision.problems[0].rule, decision.problems[0].path) == (expect["rule"], expect["path"])
        assert decision.criteria == ()
        return
    assert decision.condition == case.get("condition")
    for result, wanted in zip(decision.criteria, expect["criteria"], strict=True):
        for key, value in wanted.items():
            assert getattr(result, key) == (pytest.approx(value, abs=1e-6) if key != "state" else value), key


def test_problems_of_a_rule_are_few_however_long_it_is() -> None:
    rule = {**CASES["51 criteria"]["decision_rule"], "criteria": [{}] * 100_000}
    assert len(parse_decision_rule(spec_of({"title": "T", "decision_rule": rule})).problems) == 20


def test_a_draft_stands_where_only_names_of_arms_are_wrong() -> None:
    rule = CASES["tango settles what hoeffding does not"]["decision_rule"]
    parsed = parse_decision_rule(spec_of({"title": "T", "arms": [{"name": "x"}], "decision_rule": rule}))
    assert parsed.rule is None
    assert {problem.rule for problem in parsed.problems} == {"R-14C"}
    assert parsed.draft is not None
    assert parsed.draft.criteria[0].weights == {"treatment": 1, "baseline": -1}
    worse = parse_decision_rule(spec_of({"title": "T", "decision_rule": {**rule, "alpha": 2}}))
    assert worse.draft is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 0.5, 5e-324, 1e-90, 1e90, 1.7e308, -(2**63), 2**63 - 1, "", "a", "holm", *METHODS])
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["t", "b", "treatment", "items"]), inner)
    ),
    max_leaves=4,
)
FIELDS = ["unit", "seeds", "alpha", "method", "criteria", "multiplicity", "population", "kind", "selection"]
CRITERION_FIELDS = ["id", "metric", "weights", "margin", "bounds", "tie_band", "cluster_by"]


@settings(max_examples=100, deadline=None)
@given(
    method=st.sampled_from(sorted(METHODS)),
    changes=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=1),
    details=st.dictionaries(st.sampled_from(CRITERION_FIELDS), VALUES, max_size=2),
    counts=st.tuples(*[st.integers(0, 40)] * 4).filter(any),
)
def test_nothing_that_a_rule_says_raises(
    method: str, changes: dict[str, Any], details: dict[str, Any], counts: tuple[int, int, int, int]
) -> None:
    """Whatever stands in it: a status, finite numbers, and a power card that has a JSON form."""
    criterion = {"id": "c", "metric": "accuracy", "weights": {"t": 1, "b": -1}, "margin": 0, "bounds": [0, 1]}
    rule = {**CASES["newcombe"]["decision_rule"], "method": method, "criteria": [{**criterion, **details}], **changes}
    spec = spec_of({"title": "T", "arms": ARMS, "eval": {"n_examples": sum(counts)}, "decision_rule": rule})
    rows, evaluation = report({"accuracy": table(*counts)})
    decision = decide(spec, rows, evaluation)
    assert (decision.status == "passed") == bool(decision.criteria) == (not decision.problems)
    for result in decision.criteria:
        assert all(map(math.isfinite, (result.lower, result.effect, result.upper, result.half_width)))
        assert result.lower <= result.upper
    canonical(power_card(spec).to_json())


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.shape is not Shape.SINGLE])
def test_the_order_of_rows_and_items_changes_nothing(method: str) -> None:
    seeded = METHODS[method].units == (SEEDS,)
    rule = {**CASES["newcombe"]["decision_rule"], "method": method, "seeds": [0, 1, 2] if seeded else [0]}
    spec = spec_of({"title": "T", "arms": ARMS, "decision_rule": {**rule, "unit": SEEDS} if seeded else {**rule}})
    column = table(40, 30, 20, 30)
    values = {arm: dict.fromkeys(rule["seeds"], cells[0]) for arm, cells in column.items()}
    rows, evaluation = report({"accuracy": values})
    backwards = {arm: {seed: cells[::-1] for seed, cells in seeds.items()} for arm, seeds in values.items()}
    turned = report({"accuracy": backwards}, [f"item-{index:04d}" for index in reversed(range(120))])
    one, other = decide(spec, rows, evaluation), decide(spec, random.Random(0).sample(turned[0], len(rows)), turned[1])
    assert one.status == "passed"
    assert [(c.lower, c.upper, c.state) for c in one.criteria] == [(c.lower, c.upper, c.state) for c in other.criteria]
