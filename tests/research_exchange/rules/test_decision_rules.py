"""What a decision rule may ask for, and what it decides: methods, units, clusters, populations, several criteria."""

from typing import Any

import pytest

from research_exchange.decision import Decision, decide
from research_exchange.documents.decision_rule import parse_decision_rule
from research_exchange.statistics import select_ids
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
    population = case["rule"].get("population")
    items = (
        list(select_ids(population["items"], population["size"], population["sample_seed"])) if "draw" in case else None
    )
    rows, evaluation = report({"accuracy": values}, items)
    return decide(spec_of({"title": "T", "arms": ARMS, "decision_rule": case["rule"]}), rows, evaluation)


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
    rule = {**CASES["51 criteria"]["rule"], "criteria": [{}] * 100_000}
    assert len(parse_decision_rule(spec_of({"title": "T", "decision_rule": rule})).problems) == 20


def test_a_draft_stands_where_only_names_of_arms_are_wrong() -> None:
    rule = CASES["tango settles what hoeffding does not"]["rule"]
    parsed = parse_decision_rule(spec_of({"title": "T", "arms": [{"name": "x"}], "decision_rule": rule}))
    assert parsed.rule is None
    assert {problem.rule for problem in parsed.problems} == {"R-14C"}
    assert parsed.draft is not None
    assert parsed.draft.criteria[0].weights == {"treatment": 1, "baseline": -1}
    worse = parse_decision_rule(spec_of({"title": "T", "decision_rule": {**rule, "alpha": 2}}))
    assert worse.draft is None
