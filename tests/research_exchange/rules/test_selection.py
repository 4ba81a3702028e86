"""The selection gate, learning-rate grids and budgets (contract §13)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.documents import EvidenceFile, EvidenceShelf, GateStatus
from research_exchange.judgment import Judgment
from research_exchange.selection import edge_rates, plan_problems, read_selection
from research_exchange.updates import fold
from tests.research_exchange.rules.support import file_of, judge_bundle, patched, spec_of, updates_of, vectors

RUNS = vectors("runs")["base"]
SELECTION = vectors("selection")
CASES = {f"{case['base']}: {case['name']}": case for case in SELECTION["cases"]}


def judged(base: str, operations: list[Any]) -> Judgment:
    return judge_bundle(patched(patched(RUNS, SELECTION["bases"][base]), operations))


@pytest.mark.parametrize("name", CASES)
def test_selection(name: str) -> None:
    """R-150 to R-153"""
    case = CASES[name]
    judgment = judged(case["base"], case["patch"])
    gate = judgment.gate("selection")
    assert (gate.status, judgment.recorded_verdict) == (case["status"], case["recorded"])
    assert set(case["rules"]) <= {problem.rule for problem in gate.problems}
    assert (gate.status == "passed") == (not gate.problems)
    if "path" in case:
        assert case["path"] in {problem.path for problem in gate.problems}
    if "basis" in case:
        assert judgment.basis == case["basis"]
    if case["recorded"] == "inconclusive":
        assert judgment.withheld


def test_case_names_are_different() -> None:
    assert len(CASES) == len(SELECTION["cases"])


def test_the_edge_stands_last_among_the_objections() -> None:
    """R-211 (7)"""
    edge = [
        {"op": "replace", "path": "/updates/2/decision/selection/learning_rates/trained/selected", "value": 1e-4},
        {"op": "replace", "path": "/updates/2/decision/selection/learning_rates/untrained/selected", "value": 1e-5},
    ]
    judgment = judged("tuned", edge)
    assert judgment.explanation == 'The learning rate 0.0001 of "trained" is at the edge of its grid.'
    assert (judgment.outcome_reason, len(judgment.withheld_because)) == ("insufficient_evidence", 2)
    wrong = [*edge, {"op": "replace", "path": "/updates/2/verdict", "value": "refuted"}]
    found = judged("tuned", [*wrong, {"op": "remove", "path": "/updates/2/outcome_reason"}])
    assert [objection.basis for objection in found.withheld_because] == ["mismatch"] + ["learning_rate_edge"] * 2


def test_an_inconclusive_report_with_an_edge_stays_what_it_is() -> None:
    """R-213"""
    operations = [
        {"op": "replace", "path": "/updates/2/decision/selection/learning_rates/trained/selected", "value": 1e-4},
        {"op": "replace", "path": "/updates/2/verdict", "value": "inconclusive"},
        {"op": "remove", "path": "/updates/2/outcome_reason"},
    ]
    judgment = judged("tuned", operations)
    assert (judgment.recorded_verdict, judgment.withheld) == ("inconclusive", False)


def test_a_selection_stated_beside_its_confirmation_is_flagged() -> None:
    """R-150: nothing shows which came first."""
    assert "R-150" in {flag.rule for flag in judged("adaptive", []).flags}
    before = [
        {"op": "add", "path": "/updates/1/decision", "value": {"selection": {"frozen_before_confirmation": True}}}
    ]
    assert "R-150" not in {flag.rule for flag in judged("adaptive", before).flags}
    rows = RUNS["updates"][2]["decision"]
    after = [{"op": "add", "path": "/updates/1/decision", "value": rows}]
    assert "R-150" in {flag.rule for flag in judged("adaptive", after).flags}, "the rows were there first"
    empty = [{"op": "add", "path": "/updates/0/decision", "value": {"version": 1}}, *before]
    assert "R-150" not in {flag.rule for flag in judged("adaptive", empty).flags}


def test_a_selection_that_the_spec_does_not_plan_is_flagged() -> None:
    """R-150"""
    for part, value in (("selection", {"frozen_before_confirmation": True}), ("budgets", {})):
        bundle = patched(RUNS, [{"op": "add", "path": f"/updates/2/decision/{part}", "value": value}])
        (flag,) = [flag for flag in judge_bundle(bundle).flags if flag.rule == "R-150"]
        assert flag.text == f"reports decision.{part}, although the spec plans no selection."


def test_a_number_of_items_is_recomputed_and_a_rate_is_declared() -> None:
    items = judged("adaptive", []).gate("selection")
    assert items.computed == {"frozen_before_confirmation": True, "confirmation_items": 8}
    assert items.provenance == {"frozen_before_confirmation": "declared", "confirmation_items": "recomputed"}
    rates = judged("tuned", []).gate("selection")
    assert rates.computed == {"learning_rate of trained": 4e-5, "learning_rate of untrained": 4e-5}
    assert set(rates.provenance.values()) == {"declared"}


def test_the_problems_of_a_plan_are_known_before_any_run() -> None:
    spec = spec_of(
        patched(patched(RUNS, SELECTION["bases"]["tuned"]), CASES["tuned: the spec's grid is []"]["patch"])["spec"]
    )
    assert [(problem.rule, problem.path) for problem in plan_problems(spec)] == [("R-152", 'arms["trained"].lr_grid')]
    assert plan_problems(spec_of(RUNS["spec"])) == ()
    shared = CASES["adaptive: an item selects and confirms"]["patch"]
    spec = spec_of(patched(patched(RUNS, SELECTION["bases"]["adaptive"]), shared)["spec"])
    assert [(problem.rule, problem.found) for problem in plan_problems(spec)] == [("R-151", '"q0" in both')]


def test_r16c_a_manifest_that_was_changed_after_it_was_accepted() -> None:
    patch = CASES["adaptive: a hashed manifest, an array"]["patch"]
    bundle = patched(patched(RUNS, SELECTION["bases"]["adaptive"]), patch)
    spec, state = spec_of(bundle["spec"]), fold(spec_of(bundle["spec"]), updates_of(bundle["updates"]))
    kept = file_of("confirm.json", "other", bundle["evidence"][-1]["content"])
    changed = EvidenceFile(kept.name, kept.kind, kept.sha256, kept.size, None, lambda: b"[]")
    reading = read_selection(spec, state, EvidenceShelf([changed]), evaluators=())
    assert (reading.status, [problem.rule for problem in reading.problems]) == ("unverified", ["R-16C"])


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["trained", "random", "true", "q0", 4e-5]),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["ids", "grid", "selected", "trained", "control", "proposals"]), children, max_size=3
        )
    ),
    max_leaves=6,
)
PLACES = {
    "adaptive": [
        "/spec/decision_rule/selection",
        "/spec/decision_rule/selection/confirmation_items",
        "/updates/2/decision/selection",
    ],
    "tuned": [
        "/spec/arms/0/lr_grid",
        "/updates/2/decision/selection",
        "/updates/2/decision/selection/learning_rates/trained",
    ],
    "edit": [
        "/spec/decision_rule/kind",
        "/updates/2/decision/budgets",
        "/updates/2/decision/budgets/control",
        "/spec/arms/1",
    ],
}


@settings(max_examples=50, deadline=None)
@given(st.sampled_from([(base, place) for base, places in PLACES.items() for place in places]), ANYTHING)
def test_anything_in_place_of_a_plan_or_a_report_is_read(where: tuple[str, str], value: Any) -> None:
    """Invariants (iii) and (iv)"""
    base, place = where
    bundle = patched(patched(RUNS, SELECTION["bases"][base]), [{"op": "replace", "path": place, "value": value}])
    spec, updates = spec_of(bundle["spec"]), updates_of(bundle["updates"])
    state = fold(spec, updates)
    reading = read_selection(spec, state, EvidenceShelf([]), evaluators=())
    assert (reading.status is GateStatus.PASSED) == (not reading.problems)
    edge_rates(spec, state)
