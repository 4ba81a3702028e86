"""Two runs held against each other (R-006)."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.agreement import Agreement, Rows, Side, Standing, agree
from research_exchange.judgment import judge
from research_exchange.outcome import Basis
from research_exchange.updates import fold
from tests.research_exchange.rules.support import file_of, patched, spec_of, updates_of
from tests.research_exchange.server import scenarios


def side(run: str, wins: int = 150, *operations: dict[str, Any], updates: int = 2, inline: bool = False) -> Side:
    """A run of the server's scenario, whose trained arm solves the first `wins` items."""
    final = scenarios.final(wins, "supported" if wins > 90 else "inconclusive")
    rows = scenarios.observations(wins)
    if inline:
        final["decision"] = {"version": 1, "observations": [json.loads(line) for line in rows.splitlines()]}
    document = patched({"spec": scenarios.spec(), "updates": [scenarios.calibration(), final]}, operations)
    spec, posted = spec_of(document["spec"]), updates_of(document["updates"][:updates])
    judgment = judge(spec, posted, [file_of("observations.jsonl", "metrics", rows)])
    return Side(run, spec, fold(spec, posted), judgment)


def replaced(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def test_the_same_result_came_out_again_with_the_same_rows() -> None:
    found = agree(side("run_a"), side("run_b"))
    assert (found.standing, found.rows) == (Standing.AGREE, Rows.SAME_BYTES)
    assert found.sentence == (
        "The result came out again: both runs are recorded as supported. Their rows are the same, byte for byte."
    )
    assert [(counts.arm, counts.compared, counts.equal, counts.share) for counts in found.items] == [
        ("trained", 200, 200, 1.0),
        ("untrained", 200, 200, 1.0),
    ]
    assert found.spec_changes == ()


def test_rows_that_are_written_otherwise_have_the_same_values() -> None:
    found = agree(side("run_a"), side("run_b", inline=True))
    assert (found.standing, found.rows) == (Standing.AGREE, Rows.SAME_VALUES)
    assert "All 400 values of single items are equal." in found.sentence
    assert agree(side("run_a", inline=True), side("run_b", inline=True)).rows is Rows.SAME_BYTES


def test_effects_intervals_arms_and_items_stand_side_by_side() -> None:
    found = agree(side("run_a", 150), side("run_b", 140))
    assert (found.standing, found.rows) == (Standing.AGREE, Rows.DIFFERENT)
    assert found.sentence.endswith("390 of 400 values of single items are equal.")
    (pair,) = found.criteria
    assert (pair.id, pair.margin, pair.first.effect, pair.second.effect) == ("primary_gain", 0.25, 0.75, 0.7)
    assert pair.difference == pytest.approx(-0.05)
    assert (pair.same_state, pair.second_in_first, pair.first.n) == (True, True, 200)
    trained, untrained = found.items
    assert (trained.equal, trained.lower, trained.higher) == (190, 10, 0)
    assert (untrained.equal, untrained.share) == (200, 1.0)
    assert [(arm.arm, arm.first, arm.second) for arm in found.arms] == [
        ("trained", 0.75, 0.7),
        ("untrained", 0.0, 0.0),
    ]


def test_another_verdict_is_a_disagreement() -> None:
    found = agree(side("run_a", 150), side("run_b", 60))
    assert found.standing is Standing.DISAGREE
    assert found.sentence.startswith(
        "The result did not come out again: run_a is supported, and run_b is inconclusive (insufficient_evidence)."
    )
    assert not found.criteria[0].second_in_first


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (side("run_b", updates=1), "run_b has not ended"),
        (side("run_b", 150, replaced("/updates/1/status", "failed")), "decided by an incomplete execution"),
        (
            side("run_b", 150, replaced("/updates/0/activation_calibration/values/batch_mean_reward", 1)),
            "decided by a gate that did not pass",
        ),
    ],
)
def test_what_does_not_rest_on_the_science_confirms_nothing(second: Side, why: str) -> None:
    found = agree(side("run_a"), second)
    assert found.standing is Standing.UNDECIDED
    assert why in found.sentence


def test_different_specs_are_compared_without_agreement() -> None:
    other = side("run_b", 150, replaced("/spec/decision_rule/criteria/0/margin", 0.3))
    found = agree(side("run_a"), other)
    assert (found.standing, found.criteria) == (Standing.OTHER_SPEC, ())
    assert [change.path for change in found.spec_changes] == ['decision_rule.criteria["primary_gain"].margin']
    assert "which differ in 1 place, so neither confirms or contradicts the other" in found.sentence
    assert {(arm.arm, arm.difference) for arm in found.arms} == {("trained", 0.0), ("untrained", 0.0)}


def test_values_of_another_evaluator_are_marked() -> None:
    second = side("run_b")
    decision = second.judgment.decision
    assert decision is not None
    grids = {metric: replace(grid, evaluator="another") for metric, grid in decision.grids.items()}
    found = agree(
        side("run_a"), replace(second, judgment=replace(second.judgment, decision=replace(decision, grids=grids)))
    )
    assert not any(counts.same_evaluator for counts in found.items)
    assert "different evaluators" in found.sentence


def test_a_run_without_rows_is_compared_by_what_it_reports() -> None:
    lost = side("run_b", 150, replaced("/updates/1/decision/observations_file/name", "gone.jsonl"))
    found = agree(side("run_a"), lost)
    assert (found.standing, found.rows, found.items) == (Standing.UNDECIDED, Rows.UNKNOWN, ())
    assert [(arm.arm, arm.second) for arm in found.arms] == [("trained", 0.75), ("untrained", 0.0)]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([0, 60, 100, 150]), st.sampled_from([0, 60, 100, 150]))
def test_the_order_of_two_runs_changes_no_finding(one: int, other: int) -> None:
    there, back = agree(side("a", one), side("b", other)), agree(side("b", other), side("a", one))
    assert (there.standing, there.rows) == (back.standing, back.rows)
    assert [(counts.equal, counts.higher, counts.lower) for counts in there.items] == [
        (counts.equal, counts.lower, counts.higher) for counts in back.items
    ]
    assert there.rows is (Rows.SAME_BYTES if one == other else Rows.DIFFERENT)
    assert _is_plain(there)


def _is_plain(found: Agreement) -> bool:
    """Its JSON is JSON, with the share and the sentence of each part."""
    document = json.loads(json.dumps(found.to_json()))
    return all("share" in counts for counts in document["items"])


def test_every_basis_is_said_in_words_or_is_science() -> None:
    from research_exchange.agreement import _DECIDED_BY, _SCIENCE

    assert set(_DECIDED_BY) | _SCIENCE == set(Basis)
