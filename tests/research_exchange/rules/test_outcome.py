"""The table of contract §19 on a complete run of the corrected GS1 spec, 1319 items a side."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from research_exchange.documents.run_document import RunDocument
from research_exchange.judgment import Judgment, judge
from tests.research_exchange.rules.honest_run import BASELINE, ITEMS, TREATMENT, honest_run

Document = dict[str, Any]


def judged(document: Document) -> Judgment:
    run = RunDocument.parse(json.dumps(document).encode())
    return judge(run.spec, run.updates, run.evidence)


def one_net_win_less(document: Document) -> None:
    """The treatment misses one of the items that it alone solved; every place that says so agrees."""
    final = document["updates"][-1]
    solved = round(final["evaluation"]["scores"][1]["value"] * len(ITEMS)) - 1
    final["evaluation"]["scores"][1]["value"] = final["metrics"]["arms"][TREATMENT]["accuracy"] = solved / len(ITEMS)
    files = {file["name"]: file for file in document["evidence"]}
    for name in (f"{TREATMENT}.jsonl", "rows.jsonl"):
        rows = [json.loads(line) for line in files[name]["content"].splitlines()]
        row = next(row for row in rows if (row["arm"], row["item_id"]) == (TREATMENT, ITEMS[800]))
        row.update({"value": 0, **({"prediction": "8"} if "prediction" in row else {})})
        files[name]["content"] = "".join(f"{json.dumps(row)}\n" for row in rows)
    final["decision"]["observations_file"]["sha256"] = sha256(files["rows.jsonl"]["content"].encode()).hexdigest()


def reported(verdict: str, reason: str | None = None) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document["updates"][-1]["verdict"] = verdict
        document["updates"][-1]["outcome_reason"] = reason

    return change


def without_a_calibration_value(document: Document) -> None:
    del document["updates"][1]["activation_calibration"]["values"]["batch_mean_reward_pilot"]


def another_objective(document: Document) -> None:
    deviation = {"field": "objective", "original": "GS1", "effective": "REINFORCE", "reason": "It was easier."}
    document["updates"][0]["deviations"] = [deviation]


def legacy(document: Document) -> None:
    """A spec from before features were declared, without a rule."""
    for name in ("experiment_features", "decision_rule", "activation_gate", "restoration_preflight", "arms"):
        document["spec"].pop(name)
    document["spec"].pop("correctness_preflight")
    for update in document["updates"]:
        update.pop("correctness_preflight", None)
    reported("refuted")(document)


def baseline_alone(document: Document) -> None:
    document["updates"][-1]["completed_arms"] = [BASELINE]


TABLE: list[tuple[str, list[Callable[[Document], None]], dict[str, Any]]] = [
    ("net +33, supported", [], {"recorded_verdict": "supported", "basis": "agreed", "label": "recomputed"}),
    (
        "net +33, reported inconclusive",
        [reported("inconclusive", "insufficient_evidence")],
        {"recorded_verdict": "inconclusive", "basis": "mismatch", "withheld": False},
    ),
    (
        "activation misses a metric",
        [without_a_calibration_value],
        {"recorded_verdict": "inconclusive", "withheld": True, "withholding_gates": ("activation_gate",)},
    ),
    (
        "another objective",
        [another_objective],
        {
            "recorded_verdict": "inconclusive",
            "basis": "changed_experiment",
            "changed_experiment_verdict": "supported",
        },
    ),
    (
        "legacy, refuted, no rule",
        [legacy],
        {
            "recorded_verdict": "refuted",
            "withheld": False,
            "label": "reported; checks unknown; not recomputed",
        },
    ),
    (
        "the baseline alone is completed",
        [baseline_alone],
        {"recorded_verdict": "inconclusive", "outcome_reason": "incomplete_execution", "withheld": True},
    ),
    (
        "net +32, supported",
        [one_net_win_less],
        {"recorded_verdict": "inconclusive", "outcome_reason": "insufficient_evidence", "basis": "decision"},
    ),
    (
        "net +33, refuted",
        [reported("refuted")],
        {"recorded_verdict": "inconclusive", "basis": "mismatch", "withheld": True},
    ),
]


@pytest.mark.parametrize(("changes", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_r210_to_r213(changes: list[Callable[[Document], None]], expected: dict[str, Any]) -> None:
    document = honest_run()
    for change in changes:
        change(document)
    judgment = judged(document)
    assert {name: getattr(judgment, name) for name in expected} == expected


def test_one_net_win_less_contradicts_nothing() -> None:
    document = honest_run()
    one_net_win_less(document)
    assert judged(document).withholding_gates == ()
