"""What a run retains or reports elsewhere, held against the verdict it claims (R-068, R-080, R-130 to R-138, R-215)."""

import json
from typing import Any

import pytest

from research_exchange.documents import Provenance
from research_exchange.documents.receipts import Receipt
from tests.research_exchange.rules.small_run import BASE, EVALUATOR, FINAL, PREDICTED, add, flags, judged, replace
from tests.research_exchange.rules.support import file_of, patched

OBSERVED = {(row["arm"], row["item_id"]): row["value"] for row in BASE["updates"][2]["decision"]["observations"]}
GRADED = [{**row, "value": OBSERVED[row["arm"], row["item_id"]]} for row in PREDICTED]


def with_row(arm: str, item: str, rows: list[Any] = PREDICTED, **changes: Any) -> list[Any]:
    return [{**row, **changes} if (row["arm"], row["item_id"]) == (arm, item) else row for row in rows]


# --- Predictions, item by item ---


def swapped() -> list[Any]:
    """One right answer less and one more: the mean stays."""
    rows = with_row("trained", "q0", GRADED, value=0)
    return with_row("trained", "q6", rows, value=1)


def test_r134_grades_that_are_moved_between_items_of_an_arm() -> None:
    judgment = judged(rows=swapped())
    gate = judgment.gate("decision")
    assert (judgment.recorded_verdict, judgment.withheld, gate.status) == ("inconclusive", True, "failed")
    assert [problem.rule for problem in gate.problems] == ["R-134", "R-134"]
    assert str(gate.problems[0]) == (
        'R-134 evaluation.scores[0].predictions_ref: expected the value 1 of "q0", as in the observations, found 0. '
        "Report one value for an item."
    )
    assert judgment.decision is not None
    assert judgment.decision.criteria == (), "nothing is computed from rows that are contradicted"


def test_r134_one_answer_that_is_graded_in_two_ways() -> None:
    """Without grades in the predictions: both arms gave the same answer to q6, and only one is right."""
    index = next(i for i, key in enumerate(OBSERVED) if key == ("trained", "q6"))
    lie = [
        replace(f"{FINAL}/decision/observations/{index}/value", 1),
        replace(f"{FINAL}/evaluation/scores/0/value", 7 / 8),
    ]
    judgment = judged(*lie)
    assert (judgment.withheld, judgment.gate("decision").status) == (True, "failed")
    assert "R-134" in {problem.rule for problem in judgment.gate("decision").problems}
    assert '"0" graded 1 on' in judgment.gate("decision").problems[0].expected
    other_answer = judged(*lie, rows=with_row("trained", "q6", prediction="1"))
    assert other_answer.recorded_verdict == "supported"


def test_r134_a_wrong_answer_that_is_right_for_once() -> None:
    """The other arm solved the item; elsewhere the same answer to the same reference is wrong."""
    index = next(i for i, key in enumerate(OBSERVED) if key == ("untrained", "q1"))
    lie = [replace(f"{FINAL}/decision/observations/{index}/value", 1)]
    assert judged(*lie).recorded_verdict == "supported"
    rows = with_row("untrained", "q1", prediction="0")
    assert judged(*lie, rows=rows).gate("decision").status == "failed"
    distinct = [{**row, "reference": f"{row['item_id']} {row['reference']}"} for row in rows]
    assert judged(*lie, rows=distinct).recorded_verdict == "supported", "no other item has that right answer"
    untold = [{**row, "reference": None} for row in rows]
    assert judged(*lie, rows=untold).recorded_verdict == "supported", "and none where it is not told"


def test_r134_a_right_answer_that_is_another_one_for_one_arm() -> None:
    judgment = judged(rows=with_row("trained", "q6", reference="0"))
    gate = judgment.gate("evaluation_comparability")
    assert (judgment.withheld, gate.status) == (True, "failed")
    (problem,) = gate.problems
    assert (problem.rule, problem.found) == ("R-134", '"1"')
    assert problem.expected == '"0" as the reference of "q6", as for "trained"'


def test_r134_two_answers_to_one_item() -> None:
    judgment = judged(rows=[*PREDICTED, {**PREDICTED[6], "prediction": "1"}])
    gate = judgment.gate("evaluation_comparability")
    assert (judgment.withheld, gate.status) == (True, "failed")
    assert gate.problems[0].found == '2 rows of "q6"'


@pytest.mark.parametrize("prediction", [None, "", 7, ["1"]])
def test_answers_that_are_no_text_may_be_graded_in_two_ways(prediction: Any) -> None:
    """What was graded is then not in the row."""
    assert judged(rows=[{**row, "prediction": prediction} for row in GRADED]).recorded_verdict == "supported"


def test_r134_an_answer_to_an_item_that_nobody_evaluates() -> None:
    judgment = judged(rows=[*GRADED, {**GRADED[0], "item_id": "q9"}])
    assert judgment.gate("evaluation_comparability").status == "unverified"
    assert judgment.gate("decision").status == "passed"


def test_r147_grades_in_some_rows_only() -> None:
    rows = [GRADED[0], *PREDICTED[1:]]
    assert judged(rows=rows).gate("evaluation_comparability").status == "failed"


def test_grades_that_agree_item_by_item_change_nothing() -> None:
    assert judged(rows=GRADED).recorded_verdict == "supported"


def test_a_report_that_has_predictions_read_again_and_again_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("research_exchange.prediction_checks.MAX_ROW_VISITS", 40)
    score = BASE["updates"][2]["evaluation"]["scores"][0]
    more = [add(f"{FINAL}/evaluation/scores/-", score) for _ in range(5)]
    assert judged().recorded_verdict == "supported"
    gate = judged(*more).gate("evaluation_comparability")
    assert (gate.status, gate.problems[0].path) == ("unverified", "evaluation.scores")


def test_r133_predictions_that_are_retained_and_not_named() -> None:
    """Not naming them would escape every check."""
    judgment = judged({"op": "remove", "path": f"{FINAL}/evaluation/scores/0/predictions_ref"}, rows=swapped())
    gate = judgment.gate("evaluation_comparability")
    assert (judgment.withheld, gate.status) == (True, "unverified")
    (problem,) = gate.problems
    assert (problem.rule, problem.path) == ("R-133", "evaluation.scores[0].predictions_ref")
    others = [row for row in PREDICTED if row["arm"] == "untrained"]
    without = {"op": "remove", "path": f"{FINAL}/evaluation/scores/0/predictions_ref"}
    assert judged(without, rows=others).recorded_verdict == "supported", "nothing of that arm is retained"
    strange = [{**row, name: [row.get(name)]} for row in others for name in ("metric", "evaluator_id", "seed")]
    assert judged(without, rows=[*strange, *others]).recorded_verdict == "supported", "rows that are behind no score"
    log = file_of("log.jsonl", "log", "".join(json.dumps(row) + "\n" for row in swapped()))
    assert judged(without, rows=others, more=(log,)).recorded_verdict == "supported", "a log is no prediction file"


def test_r134_answers_of_the_other_arms_checkpoint() -> None:
    checkpoint = {"arm": "untrained", "step": 1, "uri": "tinker://abc/weights/untrained"}
    evidence = add("/updates/1/evidence", {"version": 1, "files": [], "checkpoints": [checkpoint]})
    rows = with_row("trained", "q3", checkpoint=checkpoint["uri"])
    gate = judged(evidence, rows=rows).gate("evaluation_comparability")
    assert (gate.status, gate.problems[0].found) == ("failed", 'those of "untrained"')
    own = with_row("untrained", "q3", checkpoint=checkpoint["uri"])
    assert judged(evidence, rows=own).recorded_verdict == "supported"
    odd = [{"arm": ["trained"], "uri": "x"}, {"arm": "trained", "uri": ["x"]}, 7]
    assert judged(add("/updates/1/evidence", {"version": 1, "checkpoints": odd})).recorded_verdict == "supported"
    unknown = with_row("trained", "q3", checkpoint="tinker://abc/weights/other")
    assert judged(evidence, rows=unknown).recorded_verdict == "supported"


ROWS = BASE["updates"][2]["decision"]["observations"]


@pytest.mark.parametrize("in_file", [False, True])
def test_r137_rows_that_were_reported_otherwise_before(in_file: bool) -> None:
    """The first scoring had one right answer less, and was scored again until it fitted."""
    first = [{**row, "value": 0} if (row["arm"], row["item_id"]) == ("trained", "q0") else row for row in ROWS]
    file = file_of("first.jsonl", "metrics", "".join(json.dumps(row) + "\n" for row in first))
    reported = {"observations_file": {"name": file.name, "sha256": file.sha256}} if in_file else {"observations": first}
    judgment = judged(add("/updates/1/decision", {"version": 1, **reported}), more=(file,))
    gate = judgment.gate("decision")
    assert (judgment.withheld, gate.status) == (True, "unverified")
    assert [problem.rule for problem in gate.problems] == ["R-137"]
    assert gate.problems[0].expected == 'the value 0 of "q0" for "trained", as in the rows of update 2'


@pytest.mark.parametrize(
    "earlier",
    [
        {"observations": ROWS[:3]},
        {"observations": [{**row, "value": 1, "evaluator_id": "other"} for row in ROWS]},
        {"observations": [{**row, "value": 1, "seed": 7} for row in ROWS]},
        {"observations": "none"},
        {"observations_file": {"name": "gone.jsonl", "sha256": "0" * 64}},
        {"observations_file": "gone.jsonl"},
        {},
    ],
    ids=["a part", "another evaluator", "another seed", "no rows", "no file", "no reference", "nothing"],
)
def test_earlier_rows_that_say_nothing_else_change_nothing(earlier: Any) -> None:
    assert judged(add("/updates/1/decision", {"version": 1, **earlier})).recorded_verdict == "supported"


# --- Fewer items than the spec evaluates ---


@pytest.mark.parametrize(("planned", "recorded"), [(8, "supported"), (9, "inconclusive"), (None, "supported")])
def test_r080_the_number_of_items_is_the_specs(planned: int | None, recorded: str) -> None:
    judgment = judged(add("/spec/eval", {"n_examples": planned}))
    assert judgment.recorded_verdict == recorded
    if recorded == "inconclusive":
        (problem,) = judgment.gate("decision").problems
        assert (problem.rule, problem.expected, problem.found) == ("R-080", "9 items", "8")


@pytest.mark.parametrize(("effective", "recorded"), [("8 items", "supported"), ("80 items", "inconclusive")])
def test_r080_a_stated_number_of_items_is_a_deviation_like_any_other(effective: str, recorded: str) -> None:
    stated = {"field": "evaluator", "original": "9 items", "effective": effective, "reason": "one was broken"}
    operations = [add("/spec/eval", {"n_examples": 9}), add("/updates/0/deviations/-", stated)]
    assert judged(*operations).recorded_verdict == recorded
    late = [operations[0], add(f"{FINAL}/deviations/-", stated)]
    assert judged(*late).withheld, "stated once the scores were known"


# --- When an evaluator was frozen ---


def test_an_evaluator_on_record_before_anything_was_scored_is_not_remarked() -> None:
    evaluation = {**BASE["updates"][2]["evaluation"], "scores": []}
    judgment = judged(add("/updates/0/evaluation", evaluation))
    assert flags(judgment, "R-130") == flags(judgment, "R-138") == []


def test_r130_an_evaluator_that_comes_with_its_scores() -> None:
    judgment = judged({"op": "remove", "path": "/updates/1/metrics"})
    (text,) = flags(judgment, "R-130")
    assert "together with its scores" in text
    assert judgment.recorded_verdict == "supported", "a remark stops nothing"


def test_r138_an_evaluator_after_a_metric_of_that_name() -> None:
    """The untrained arm has an accuracy in update 2, the evaluator comes in update 3."""
    assert len(flags(judged(), "R-138")) == 1


@pytest.mark.parametrize("part", ["code_sha256", "parser", "items"])
def test_r138_an_evaluator_that_was_on_record_otherwise_was_not_frozen(part: str) -> None:
    """Under the id that it has now, with another provenance: only the later one is what the id says."""
    evaluation = {**BASE["updates"][2]["evaluation"], "scores": []}
    early = patched(evaluation, [replace(f"/evaluators/{EVALUATOR}/{part}", "x")])
    assert len(flags(judged(add("/updates/0/evaluation", early)), "R-138")) == 1


def test_r008_scores_of_an_arm_that_the_spec_does_not_name() -> None:
    score = {"arm": "third", "metric": "accuracy", "value": 1, "evaluator_id": EVALUATOR, "seed": 0}
    assert flags(judged(add(f"{FINAL}/evaluation/scores/-", score)), "R-008") == [
        'scores "third", which the spec does not name.'
    ]


def test_r135_without_a_rule_something_is_compared() -> None:
    operations = [{"op": "remove", "path": "/spec/decision_rule"}, replace(f"{FINAL}/evaluation/comparisons", [])]
    gate = judged(*operations).gate("evaluation_comparability")
    assert (gate.status, gate.problems[0].rule) == ("unverified", "R-135")


def test_r135_without_a_rule_every_arm_is_compared() -> None:
    operations = [
        {"op": "remove", "path": "/spec/decision_rule"},
        add("/spec/arms/-", {"name": "third"}),
        add(f"{FINAL}/completed_arms/-", "third"),
    ]
    judgment = judged(*operations)
    assert (judgment.withheld, judgment.gate("evaluation_comparability").status) == (True, "unverified")


# --- Numbers, and who answers for them ---


def test_r068_a_metric_that_the_rows_do_not_bear_out() -> None:
    judgment = judged(replace(f"{FINAL}/metrics/arms/trained/accuracy", 0.99))
    assert flags(judgment, "R-068") == ["reports metrics.arms.trained.accuracy = 0.99; its rows have 0.75."]
    assert judgment.recorded_verdict == "supported", "the verdict rests on the rows"
    assert {number.path: number.provenance for number in judgment.numbers} == {
        "metrics.arms.trained.accuracy": Provenance.DECLARED,
        "metrics.arms.untrained.accuracy": Provenance.RECOMPUTED,
    }


def test_r215_attested_is_only_what_a_receipt_states() -> None:
    receipt = Receipt("r1", {"group_size": 1, "model": "tiny", "reward_spread": "0.4", "other": 3})
    judgment = judged(receipts=(receipt,))
    assert judgment.receipts == ("r1",)
    assert judgment.gate("activation_gate").provenance == {
        "reward_spread": Provenance.DECLARED,
        "group_size": Provenance.ATTESTED,
        "model": Provenance.ATTESTED,
    }
    assert flags(judgment, "R-215") == [
        "activation_gate: reward_spread is declared as 0.4, which no receipt about it states."
    ]
    assert "attested" not in judged().canonical_bytes().decode()


def test_r215_a_metric_without_rows_may_be_attested() -> None:
    without = {"op": "remove", "path": "/spec/decision_rule"}
    receipt = Receipt("r1", {"metrics.arms.trained.accuracy": 0.75})
    for receipts, provenance in (((), Provenance.DECLARED), ((receipt,), Provenance.ATTESTED)):
        number = judged(without, receipts=receipts).numbers[0]
        assert (number.path, number.provenance, number.recomputed) == (
            "metrics.arms.trained.accuracy",
            provenance,
            None,
        )
