"""One training that is told as two seeds (R-154), and evaluators that change once there are scores (R-130)."""

from typing import Any

import pytest

from research_exchange.judgment import Judgment
from tests.research_exchange.rules.small_run import BASE, EVALUATOR, FINAL, PREDICTED, add, flags, judged, replace

OBSERVED = BASE["updates"][2]["decision"]["observations"]
SCORES = BASE["updates"][2]["evaluation"]["scores"]


def two_seeds(*operations: dict[str, Any], rows: list[Any]) -> Judgment:
    """The small run with its values once more, under seed 1."""
    return judged(
        replace("/spec/decision_rule/seeds", [0, 1]),
        replace(f"{FINAL}/decision/observations", OBSERVED + [{**row, "seed": 1} for row in OBSERVED]),
        replace(f"{FINAL}/evaluation/scores", SCORES + [{**score, "seed": 1} for score in SCORES]),
        *operations,
        rows=rows,
    )


def labelled(**changes: Any) -> list[Any]:
    """Predictions of both seeds, those of seed 1 with changes."""
    return [{**row, "seed": 0} for row in PREDICTED] + [{**row, "seed": 1, **changes} for row in PREDICTED]


def test_rows_that_say_their_seed_may_be_in_one_file() -> None:
    judgment = two_seeds(rows=labelled())
    assert judgment.gate("evaluation_comparability").status == "passed"
    assert judgment.recorded_verdict == "supported"


def test_the_same_answers_and_the_same_values_are_remarked_with_their_number() -> None:
    texts = flags(two_seeds(rows=labelled()), "R-154")
    assert len([text for text in texts if "answers word for word" in text]) == 2
    assert len([text for text in texts if "values one by one" in text]) == 2
    assert 'for seeds 0 and 1 of "trained" on all 8 items of "accuracy"' in texts[0]


def test_answers_in_other_words_are_other_answers() -> None:
    other = [{**row, "prediction": f"{row['prediction']}."} if row["seed"] else row for row in labelled()]
    assert {"word for word" in text for text in flags(two_seeds(rows=other), "R-154")} == {False}


def test_an_arm_without_a_training_answers_alike_under_every_seed() -> None:
    names = [arm["name"] for arm in BASE["spec"]["arms"]]
    frozen = [add(f"/spec/arms/{index}/frozen", True) for index in range(len(names))]
    assert flags(two_seeds(*frozen, rows=labelled()), "R-154") == []
    assert two_seeds(*frozen, rows=unlabelled()).gate("evaluation_comparability").status == "passed"


def unlabelled() -> list[Any]:
    return [{key: value for key, value in row.items() if key != "seed"} for row in PREDICTED]


def test_rows_without_a_seed_are_not_two_trainings() -> None:
    gate = two_seeds(rows=unlabelled()).gate("evaluation_comparability")
    assert gate.status == "failed"
    assert {problem.rule for problem in gate.problems} == {"R-154"}
    assert 'the very bytes behind seed 0, in "predictions.jsonl"' in gate.problems[0].found


@pytest.mark.parametrize(
    ("changes", "noted"),
    [
        ({"prediction": None}, True),
        ({"prediction": ""}, True),
        ({"prediction": None, "value": 0}, False),
        ({"prediction": 7}, False),
    ],
)
def test_r134_a_grade_without_an_answer_is_remarked(changes: dict[str, Any], noted: bool) -> None:
    rows = [{**row, **changes} if row["item_id"] == "q7" else row for row in PREDICTED]
    judgment = judged(rows=rows)
    assert bool(flags(judgment, "R-134")) == noted
    if noted:
        assert "no answer in 1 of 8 predictions" in flags(judgment, "R-134")[0]


# --- Another evaluator, once there are scores ---

OTHER = "7bb2d3871060efcf880e7afaac27d1838f2d29ae6813ff583f99f321fe9b6979"
CHANGED = {"field": "evaluator", "original": "v2", "effective": "v1", "reason": "It took digits for numbers."}


def changed(*operations: dict[str, Any]) -> str:
    """The status of the gate, where an arm has a score of another evaluator in the update before the last."""
    provenance = {**BASE["updates"][2]["evaluation"]["evaluators"][EVALUATOR], "parser": "last_number_v2"}
    score = {"arm": "trained", "metric": "accuracy", "value": 0.75, "evaluator_id": OTHER, "seed": 0}
    early = {"version": 1, "evaluators": {OTHER: provenance}, "scores": [score], "comparisons": []}
    return judged(add("/updates/1/evaluation", early), *operations).gate("evaluation_comparability").status


def test_r130_an_evaluator_is_not_changed_in_silence() -> None:
    assert changed() == "unverified"
    assert changed(add("/updates/1/deviations", [CHANGED])) == "passed"


def test_r130_a_change_that_is_stated_with_the_last_scores_comes_too_late() -> None:
    assert changed(replace(f"{FINAL}/deviations", [CHANGED])) == "unverified"


def test_r130_another_field_says_nothing_of_the_evaluator() -> None:
    assert changed(add("/updates/1/deviations", [{**CHANGED, "field": "dataset"}])) == "unverified"


def test_r130_an_evaluator_of_another_metric_is_no_change() -> None:
    assert changed(replace("/updates/1/evaluation/scores/0/metric", "length")) == "passed"


def test_r130_an_evaluator_that_was_described_before_is_no_change() -> None:
    evaluation = {**BASE["updates"][2]["evaluation"], "scores": []}
    assert changed(add("/updates/0/evaluation", evaluation)) == "passed"
