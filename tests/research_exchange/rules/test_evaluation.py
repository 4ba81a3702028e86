"""Evaluator ids and the marks of a relabelled evaluation (contract §11)."""

import json
from time import process_time
from typing import Any

import pytest

from research_exchange.documents import EvidenceFile
from research_exchange.documents.items import item_ids
from research_exchange.evaluation import evaluator_id
from research_exchange.judgment import judge
from research_exchange.predictions import read_predictions
from tests.research_exchange.rules.support import file_of, patched, spec_of, updates_of, vectors

BASE = vectors("runs")["base"]
ROW = {"item_id": "q0", "arm": "a", "metric": "m", "evaluator_id": "e", "prediction": None, "reference": "1"}


@pytest.mark.parametrize("case", vectors("evaluator_ids")["cases"], ids=lambda case: str(case["id"])[:8])
def test_evaluator_id(case: dict[str, str]) -> None:
    """R-132"""
    assert evaluator_id(json.loads(case["provenance"])) == case["id"]


@pytest.mark.parametrize(
    ("ids", "different"),
    [
        (["q0", "q1"], True),
        (["doc 1 12", "doc 11 2", "doc 112"], True),
        (["q0", "q0"], False),
        (["q0", "q0 "], False),
        (["q 0", "q\u00a0 0"], False),
        (["q0", "q\u200b0"], False),
        (["q2", "q\u00b2"], False),
        (["q0", "Q0"], True),
    ],
    ids=ascii,
)
def test_r131_ids_that_look_alike_are_one_item(ids: list[str], different: bool) -> None:
    """White space counts, though not how much of it: an id may be made of several numbers."""
    assert item_ids(ids) == (tuple(ids) if different else None)


def test_an_evaluator_has_no_nan() -> None:
    """R-132"""
    with pytest.raises(ValueError, match="not JSON compliant"):
        evaluator_id({"decoding": {"temperature": float("nan")}})


def test_predictions_are_read_up_to_the_first_bad_line() -> None:
    """R-16B"""
    lines = [json.dumps(ROW), json.dumps({**ROW, "item_id": "q1"}), json.dumps({**ROW, "item_id": 3}), json.dumps(ROW)]
    predictions = read_predictions("\n".join(lines).encode())
    assert predictions.bad_line == 3
    assert [row["item_id"] for row in predictions.of("a", "m", "e", 0)] == ["q0", "q1"]
    assert predictions.of("a", "m", "other", 0) == []
    assert read_predictions((lines[0] + "\n\n").encode()).bad_line is None


def test_the_rows_of_a_seed_are_found_without_reading_all_others() -> None:
    rows: list[dict[str, Any]] = [{**ROW, "item_id": f"q{number}", "seed": 1} for number in range(5000)]
    odd: dict[str, Any] = {"null": None, "true": True, "list": [0]}
    rows += [{**ROW, "item_id": item, "seed": seed} for item, seed in odd.items()]
    predictions = read_predictions("\n".join(map(json.dumps, rows)).encode())
    assert len(predictions.of("a", "m", "e", 1)) == 5001
    before = process_time()
    for seed in range(2, 10_000):
        assert [row["item_id"] for row in predictions.of("a", "m", "e", seed)] == ["null"]
    assert process_time() - before < 0.5


@pytest.mark.parametrize("missing", ["item_id", "arm", "prediction", "reference"])
def test_a_prediction_row_names_item_arm_prediction_and_reference(missing: str) -> None:
    row = {key: value for key, value in ROW.items() if key != missing}
    assert read_predictions(json.dumps(row).encode()).bad_line == 1


def test_every_seed_is_asked_of_every_arm_but_the_base_model() -> None:
    """R-135"""
    scores = "/updates/2/evaluation/scores"
    second = [{**score, "seed": 1} for score in BASE["updates"][2]["evaluation"]["scores"]]
    for score in second:
        del score["predictions_ref"]  # the file holds the rows of seed 0
    whole: list[dict[str, Any]] = [{"op": "replace", "path": "/spec/decision_rule/seeds", "value": [0, 1]}]
    whole += [{"op": "add", "path": f"{scores}/-", "value": score} for score in second]
    evaluator = second[0]["evaluator_id"]
    base: dict[str, Any] = {"arm": "base", "metric": "accuracy", "value": 0.1, "evaluator_id": evaluator}
    whole.append({"op": "add", "path": f"{scores}/-", "value": base})
    for operations, status in ((whole, "passed"), (whole[:2], "unverified")):
        bundle = patched(BASE, operations)
        files = [file_of(file["name"], file["kind"], file["content"]) for file in bundle["evidence"]]
        judgment = judge(spec_of(bundle["spec"]), updates_of(bundle["updates"]), files)
        assert judgment.gate("evaluation_comparability").status == status


def test_prediction_files_of_two_scores_are_read_once() -> None:
    reads = []
    kept = file_of("predictions.jsonl", "predictions", BASE["evidence"][0]["content"])

    def content() -> bytes:
        reads.append(1)
        return kept.content()

    file = EvidenceFile(kept.name, kept.kind, kept.sha256, kept.size, None, content)
    assert judge(spec_of(BASE["spec"]), updates_of(BASE["updates"]), [file]).recorded_verdict == "supported"
    assert len(reads) == 1
