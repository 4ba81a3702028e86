"""A runner that reports support it does not have: each lie is withheld, with the rule that caught it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.documents import EvidenceFile, EvidenceLost, GateStatus, Verdict
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.judgment import Judgment, judge
from tests.research_exchange.rules.support import file_of, patched, paths, spec_of, updates_of, vectors

BASE = vectors("runs")["base"]
ROWS = BASE["updates"][2]["decision"]["observations"]
EVALUATION = BASE["updates"][2]["evaluation"]
OBSERVATIONS = file_of("rows.jsonl", "metrics", "".join(json.dumps(row) + "\n" for row in ROWS))
PREDICTIONS = file_of("predictions.jsonl", "predictions", BASE["evidence"][0]["content"])
WITH_FILE = patched(
    BASE,
    [
        {
            "op": "replace",
            "path": "/updates/2/decision",
            "value": {"version": 1, "observations_file": {"name": "rows.jsonl", "sha256": OBSERVATIONS.sha256}},
        }
    ],
)


def judged(evidence: list[EvidenceFile], bundle: Any = WITH_FILE) -> Judgment:
    return judge(spec_of(bundle["spec"]), updates_of(bundle["updates"]), evidence)


def with_content(file: EvidenceFile, content: Callable[[], bytes]) -> EvidenceFile:
    return EvidenceFile(file.name, file.kind, file.sha256, file.size, file.update, content)


def lost() -> bytes:
    raise EvidenceLost("The blob is gone.")


def unreadable() -> bytes:
    raise PermissionError("no")


def assert_withheld(judgment: Judgment, rule: str) -> None:
    assert (judgment.reported_verdict, judgment.recorded_verdict, judgment.withheld) == (
        "supported",
        "inconclusive",
        True,
    )
    assert judgment.withheld_because
    rules = {
        problem.rule for gate in judgment.gates if gate.gate in judgment.withholding_gates for problem in gate.problems
    }
    assert rule in rules


PREDICTED = [json.loads(line) for line in BASE["evidence"][0]["content"].splitlines()]


def predicted(rows: list[Any]) -> EvidenceFile:
    return file_of("predictions.jsonl", "predictions", "".join(json.dumps(row) + "\n" for row in rows))


def graded(values: dict[str, Any]) -> EvidenceFile:
    """The predictions with a grade per row: the arm's own, the same for all its items."""
    return predicted([{**row, "value": values[row["arm"]]} for row in PREDICTED])


def rightly_graded() -> list[Any]:
    """Each prediction with the value that its observation has."""
    values = {(row["arm"], row["item_id"]): row["value"] for row in ROWS}
    return [{**row, "value": values[row["arm"], row["item_id"]]} for row in PREDICTED]


def test_grades_in_the_predictions_that_bear_the_observations_out_change_nothing() -> None:
    judgment = judged([OBSERVATIONS, predicted(rightly_graded())])
    assert judgment.recorded_verdict == judged([OBSERVATIONS, PREDICTIONS]).recorded_verdict == "supported"


@pytest.mark.parametrize("grade", [0, 0.75001, True, "0.75", None])
def test_r147_predictions_graded_otherwise_than_scored(grade: Any) -> None:
    judgment = judged([OBSERVATIONS, graded({"trained": grade, "untrained": 0.25})])
    assert judgment.gate("evaluation_comparability").status is GateStatus.FAILED
    assert_withheld(judgment, "R-147")


def test_the_honest_runner_is_believed() -> None:
    assert judged([OBSERVATIONS, PREDICTIONS]).recorded_verdict == "supported"


def flip_one_value() -> bytes:
    return OBSERVATIONS.content().replace(b'"value": 0', b'"value": 1', 1)


@pytest.mark.parametrize("content", [flip_one_value, lambda: b"", lost, unreadable])
def test_observations_that_were_changed_or_lost_after_they_were_accepted(content: Callable[[], bytes]) -> None:
    assert_withheld(judged([with_content(OBSERVATIONS, content), PREDICTIONS]), "R-16C")


@pytest.mark.parametrize("content", [lambda: b"{}", lost, unreadable])
def test_predictions_that_were_changed_or_lost(content: Callable[[], bytes]) -> None:
    judgment = judged([OBSERVATIONS, with_content(PREDICTIONS, content)])
    assert_withheld(judgment, "R-16C")
    states = {expectation.kind: expectation.state for expectation in judgment.evidence}
    assert states["predictions"] == "partial"


def test_another_file_under_the_name_that_was_reported() -> None:
    other = file_of("rows.jsonl", "metrics", OBSERVATIONS.content().replace(b'"value": 0', b'"value": 1'))
    assert_withheld(judged([other, PREDICTIONS]), "R-142")


def test_better_rows_than_scores() -> None:
    better = [{**row, "value": 1} if row["arm"] == "trained" else row for row in ROWS]
    bundle = patched(BASE, [{"op": "replace", "path": "/updates/2/decision/observations", "value": better}])
    assert_withheld(judged([PREDICTIONS], bundle), "R-147")


def test_a_dropped_item_on_both_sides() -> None:
    rows = [row for row in ROWS if row["item_id"] != "q6"]
    scores = [{**score, "value": value} for score, value in zip(EVALUATION["scores"], (6 / 7, 2 / 7), strict=True)]
    operations = [
        {"op": "replace", "path": "/updates/2/decision/observations", "value": rows},
        {"op": "replace", "path": "/updates/2/evaluation/scores", "value": scores},
    ]
    assert_withheld(judged([PREDICTIONS], patched(BASE, operations)), "R-143")


def test_an_evaluator_that_forgets_an_item_keeps_its_old_id() -> None:
    (evaluator,) = EVALUATION["evaluators"]
    path = f"/updates/2/evaluation/evaluators/{evaluator}/items/ids/6"
    assert_withheld(judged([PREDICTIONS], patched(BASE, [{"op": "remove", "path": path}])), "R-132")


def test_a_second_seed_that_looked_better() -> None:
    better = [{**row, "seed": 1, "value": 1 if row["arm"] == "trained" else 0} for row in ROWS]
    bundle = patched(BASE, [{"op": "replace", "path": "/updates/2/decision/observations", "value": ROWS + better}])
    assert_withheld(judged([PREDICTIONS], bundle), "R-148")


def test_many_false_rows_do_not_hide_that_others_are_missing() -> None:
    """More problems than are told: the incomplete grid stays incomplete."""
    strangers = [{**ROWS[0], "metric": f"other-{number}"} for number in range(MAX_PROBLEMS + 1)]
    rows = [*strangers, *(row for row in ROWS if row["arm"] == "trained")]
    bundle = patched(BASE, [{"op": "replace", "path": "/updates/2/decision/observations", "value": rows}])
    judgment = judged([PREDICTIONS], bundle)
    assert_withheld(judgment, "R-143")
    assert judgment.outcome_reason == "incomplete_execution"


def test_scoring_again_and_keeping_the_better_score() -> None:
    """R-137: the same evaluator, arm and seed had another value in an earlier update."""
    worse = patched(EVALUATION, [{"op": "replace", "path": "/scores/0/value", "value": 0.5}])
    operations = [{"op": "add", "path": "/updates/1/evaluation", "value": worse}]
    assert_withheld(judged([PREDICTIONS], patched(BASE, operations)), "R-137")
    same = [{"op": "add", "path": "/updates/1/evaluation", "value": EVALUATION}]
    assert judged([PREDICTIONS], patched(BASE, same)).recorded_verdict == "supported"


CALIBRATION = BASE["updates"][0]["activation_calibration"]
MOVED = {"op": "remove", "path": "/updates/0/activation_calibration"}


def test_a_calibration_after_all_training() -> None:
    """R-122: in the final update, or with the last arm that was completed."""
    final = [MOVED, {"op": "add", "path": "/updates/2/activation_calibration", "value": CALIBRATION}]
    assert_withheld(judged([PREDICTIONS], patched(BASE, final)), "R-122")
    completed = [
        MOVED,
        {"op": "add", "path": "/updates/1/activation_calibration", "value": CALIBRATION},
        {"op": "replace", "path": "/updates/1/completed_arms", "value": ["untrained", "trained"]},
    ]
    assert_withheld(judged([PREDICTIONS], patched(BASE, completed)), "R-122")


def test_a_calibration_that_failed_before_training_and_holds_after_it() -> None:
    failing = [
        {"op": "replace", "path": "/updates/0/activation_calibration/values/group_size", "value": 2},
        {"op": "add", "path": "/updates/2/activation_calibration", "value": CALIBRATION},
    ]
    assert_withheld(judged([PREDICTIONS], patched(BASE, failing)), "R-122")


@pytest.mark.parametrize("operations", [[], [MOVED]])
def test_a_calibration_in_time_may_be_repeated_or_come_after_the_untrained_arm(operations: list[Any]) -> None:
    place = "/updates/1" if operations else "/updates/2"
    again = [*operations, {"op": "add", "path": f"{place}/activation_calibration", "value": CALIBRATION}]
    assert judged([PREDICTIONS], patched(BASE, again)).recorded_verdict == "supported"


OBJECTIVE = {"field": "objective", "original": "GRPO", "effective": "REINFORCE", "reason": "It was easier."}


@pytest.mark.parametrize("deviations", [OBJECTIVE, [{**OBJECTIVE, "field": "Objective "}]], ids=["no list", "spelling"])
def test_another_objective_that_is_stated_awkwardly(deviations: Any) -> None:
    """R-078: read as what it says, and flagged."""
    bundle = patched(BASE, [{"op": "replace", "path": "/updates/0/deviations", "value": deviations}])
    judgment = judged([PREDICTIONS], bundle)
    assert (judgment.basis, judgment.withheld) == ("changed_experiment", True)
    assert "R-075" in {flag.rule for flag in judgment.flags}


MANY = 20_000


@pytest.mark.parametrize(
    "part",
    [
        {"evaluation": {"version": 1, "evaluators": {str(number): {} for number in range(MANY)}}},
        {"evaluation": {"version": 1, "scores": [{}] * MANY}},
        {"evaluation": {"version": 1, "comparisons": [{}] * MANY}},
        {"evidence": {"checkpoints": [{}] * MANY}},
        {"completed_arms": [1] * MANY},
        {"metrics": {str(number): "x" for number in range(MANY)}},
    ],
    ids=["evaluators", "scores", "comparisons", "checkpoints", "completed_arms", "metrics"],
)
def test_a_judgment_is_not_much_longer_than_what_it_judges(part: dict[str, Any]) -> None:
    """A small update must not fill the store with sentences about it."""
    raw = json.dumps({**BASE["updates"][2], **part}).encode()
    judgment = judge(spec_of(BASE["spec"]), updates_of([*BASE["updates"][:2], raw]), [PREDICTIONS])
    assert len(judgment.canonical_bytes()) < 100_000


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(
        ["supported", "refuted", "running", "succeeded", "failed", "trained", "accuracy", "q0", 0, 1, 1.0]
    ),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)


PLACES = [
    path
    for path in paths(BASE)
    if not path.startswith("/evidence") and path not in ("/spec", "/updates", "/spec/title")
]


def required_gates_pass(judgment: Judgment, *, is_legacy: bool) -> bool:
    """A legacy spec may leave a gate unknown (R-212); no other state but passed will do."""
    allowed = {GateStatus.PASSED, GateStatus.NOT_APPLICABLE} | ({GateStatus.UNKNOWN} if is_legacy else set())
    return {gate.status for gate in judgment.gates} <= allowed


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(PLACES), ANYTHING, st.sampled_from(["replace", "remove"]))
def test_anything_in_place_of_any_part_is_judged(place: str, value: Any, operation: str) -> None:
    """Invariants (iii) and (iv): never an exception, and a definitive record only where every required gate passed."""
    bundle = patched(BASE, [{"op": operation, "path": place, "value": value}])
    judgment = judged([PREDICTIONS], bundle)
    assert judgment.canonical_bytes() == judged([PREDICTIONS], bundle).canonical_bytes()
    if judgment.recorded_verdict in (Verdict.SUPPORTED, Verdict.REFUTED):
        assert required_gates_pass(judgment, is_legacy="experiment_features" not in bundle["spec"])
        assert judgment.decision is None or judgment.decision.verdict is judgment.recorded_verdict
    assert judgment.withheld == (
        judgment.reported_verdict in ("supported", "refuted") and judgment.recorded_verdict == "inconclusive"
    )


@settings(max_examples=150, deadline=None)
@given(
    st.lists(ANYTHING, max_size=3), st.dictionaries(st.sampled_from(sorted(BASE["updates"][2])), ANYTHING, max_size=4)
)
def test_any_updates_are_judged(bodies: list[Any], fields: dict[str, Any]) -> None:
    """Invariant (iv)"""
    judgment = judge(spec_of(BASE["spec"]), updates_of([*bodies, {"status": "succeeded", **fields}]), [])
    assert judgment.recorded_verdict not in (Verdict.SUPPORTED, Verdict.REFUTED)


@settings(max_examples=50, deadline=None)
@given(st.permutations(ROWS))
def test_the_order_of_rows_changes_nothing(rows: list[Any]) -> None:
    """Invariant (ii), to the last byte of the judgment."""
    bundle = patched(BASE, [{"op": "replace", "path": "/updates/2/decision/observations", "value": rows}])
    expected, found = judged([PREDICTIONS], BASE), judged([PREDICTIONS], bundle)
    assert found.canonical_bytes() == expected.canonical_bytes()


@settings(max_examples=50, deadline=None)
@given(
    st.permutations(ROWS),
    st.integers(0, len(ROWS) - 1),
    st.sampled_from(["value", "seed", "item_id", "arm", "evaluator_id"]),
)
def test_no_order_of_false_rows_is_believed(rows: list[Any], index: int, name: str) -> None:
    false = [{**row, name: "x" if name not in ("value", "seed") else 7} if row is rows[index] else row for row in rows]
    bundle = patched(BASE, [{"op": "replace", "path": "/updates/2/decision/observations", "value": false}])
    assert judged([PREDICTIONS], bundle).withheld
