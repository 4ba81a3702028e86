"""The recomputed decision: tables, forms of the observations file, caps, several criteria and seeds (contract §12)."""

import json
import random
import time
from typing import Any

import pytest

from research_exchange.decision import CriterionState, decide
from research_exchange.decision_verdict import outcome_of, state_of
from research_exchange.documents import Spec
from research_exchange.documents.decision_rule import Band
from research_exchange.documents.observations import MAX_BYTES, MAX_ROWS, read_file, read_rows
from research_exchange.judgment import judge
from tests.research_exchange.rules.grids import report, table
from tests.research_exchange.rules.support import file_of, spec_of, updates_of, vectors

FILES = vectors("observation_files")


def spec(criteria: list[dict[str, Any]], seeds: tuple[int, ...] = (0,), **rule: Any) -> Spec:
    arms = [{"name": "t", "role": "treatment"}, {"name": "b", "role": "baseline"}]
    decision_rule = {
        "version": 1,
        "estimand": "e",
        "unit": "fixed_checkpoint_items",
        "seeds": list(seeds),
        "alpha": 0.05,
        "method": "paired_hoeffding",
        "criteria": criteria,
        **rule,
    }
    return spec_of({"title": "T", "arms": arms, "decision_rule": decision_rule})


def criterion(margin: float, metric: str = "accuracy", **fields: Any) -> dict[str, Any]:
    weights = {"treatment": 1, "baseline": -1}
    return {
        "id": f"{metric}{margin}",
        "metric": metric,
        "weights": weights,
        "margin": margin,
        "bounds": [0, 1],
        **fields,
    }


@pytest.mark.parametrize(
    "case", vectors("paired_tables")["cases"], ids=lambda case: f"{case['id']} margin {case['margin']}"
)
def test_paired_table(case: dict[str, Any]) -> None:
    rows, evaluation = report({"accuracy": table(case["n11"], case["n10"], case["n01"], case["n00"])})
    decision = decide(spec([criterion(case["margin"])]), rows, evaluation)
    (result,) = decision.criteria
    assert (decision.verdict, decision.outcome_reason, decision.rows) == (case["verdict"], case["reason"], 2638)
    assert result.effect == case["net"] / 1319
    assert [result.lower, result.upper] == pytest.approx([case["lower"], case["upper"]], abs=1e-6)


@pytest.mark.parametrize(
    ("lower", "upper", "margin", "state"),
    [
        (0.0, 1.0, 0.0, "unsettled"),
        (-1.0, 0.0, 0.0, "unsettled"),
        (1e-300, 1.0, 0.0, "pass"),
        (-1.0, -1e-300, 0.0, "fail"),
        (-0.2, 0.2, 0.0, "tie"),
        (-0.1, 0.2, 0.0, "tie"),
        (-0.3, 0.2, 0.0, "unsettled"),
        (0.1, 0.15, 0.0, "pass"),
    ],
)
def test_an_interval_settles_a_margin_strictly(lower: float, upper: float, margin: float, state: str) -> None:
    """R-14A, decision-statistics §4"""
    assert state_of(lower, upper, margin, Band(-0.2, 0.2)) == state
    assert state_of(lower, upper, margin, None) == ("unsettled" if state == "tie" else state)


@pytest.mark.parametrize(
    ("states", "verdict", "reason"),
    [
        ("pass pass", "supported", "supported"),
        ("fail fail", "refuted", "refuted"),
        ("pass fail", "inconclusive", "mixed_criteria"),
        ("pass tie", "inconclusive", "mixed_criteria"),
        ("tie pass", "inconclusive", "tie"),
        ("tie tie", "inconclusive", "tie"),
        ("pass unsettled", "inconclusive", "insufficient_evidence"),
        ("tie unsettled", "inconclusive", "insufficient_evidence"),
        ("fail unsettled", "inconclusive", "insufficient_evidence"),
    ],
)
def test_criteria_together(states: str, verdict: str, reason: str) -> None:
    """R-14A, decision-statistics §4"""
    outcome = outcome_of([CriterionState(state) for state in states.split()])
    assert (outcome.verdict, outcome.reason) == (verdict, reason)


def test_two_criteria_on_two_metrics() -> None:
    rows, evaluation = report({"accuracy": table(0, 50, 0, 0), "format": table(0, 0, 50, 0)})
    two = spec([criterion(0), criterion(0, "format")])
    decision = decide(two, rows, evaluation)
    assert [result.state for result in decision.criteria] == ["pass", "fail"]
    assert decision.outcome_reason == "mixed_criteria"


def test_seeds_are_averaged_inside_an_item_and_n_counts_items() -> None:
    """R-154, V5"""
    (case,) = vectors("hoeffding")["seeds"]
    values = {
        "t": dict(enumerate(zip(*case["treatment"], strict=True))),
        "b": dict(enumerate(zip(*case["baseline"], strict=True))),
    }
    rows, evaluation = report(
        {"accuracy": {arm: {s: list(v) for s, v in seeds.items()} for arm, seeds in values.items()}}
    )
    decision = decide(spec([criterion(0)], seeds=(0, 1, 2)), rows, evaluation)
    (result,) = decision.criteria
    assert result.n == 4
    assert [result.effect, result.lower, result.upper] == pytest.approx([0.25, case["lower"], case["upper"]], abs=1e-9)


def test_scaling_metric_and_margin_changes_nothing() -> None:
    """V15"""
    percent = {arm: {0: [100 * value for value in values[0]]} for arm, values in table(800, 110, 77, 332).items()}
    rows, evaluation = report({"accuracy": percent})
    decision = decide(spec([criterion(-5, bounds=[0, 100])]), rows, evaluation)
    assert decision.verdict == "supported"
    assert decision.criteria[0].half_width == pytest.approx(7.478936258, abs=1e-9)


def test_shuffled_rows_give_the_same_decision() -> None:
    rows, evaluation = report({"accuracy": table(800, 110, 77, 332)})
    shuffled = random.Random(0).sample(rows, len(rows))
    assert decide(spec([criterion(-0.05)]), shuffled, evaluation) == decide(spec([criterion(-0.05)]), rows, evaluation)


@pytest.mark.parametrize("case", FILES["accept"], ids=lambda case: str(case["name"]))
def test_a_form_of_the_observations_file(case: dict[str, Any]) -> None:
    """R-142"""
    observations = read_file(case["text"].encode(), "rows.jsonl")
    assert (len(observations), observations.problems) == (case["rows"], ())


@pytest.mark.parametrize("case", FILES["refuse"], ids=lambda case: str(case["name"]))
def test_an_observations_file_that_is_refused(case: dict[str, Any]) -> None:
    """R-142, R-143, R-144"""
    content = bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()
    observations = read_file(content, "rows.jsonl")
    assert len(observations) == 0
    assert case["says"] in str(observations.problems[0])


def test_every_form_gives_the_same_decision() -> None:
    """R-142"""
    rows, evaluation = report({"accuracy": table(0, 50, 0, 0)})
    body = {"status": "running", "evaluation": evaluation}
    inline = decide(spec([criterion(0)]), rows, evaluation)
    for content in ("\n".join(map(json.dumps, rows)), json.dumps(rows, indent=2), json.dumps({"observations": rows})):
        file = file_of("rows.jsonl", "metrics", content)
        decision = {"version": 1, "observations_file": {"name": file.name, "sha256": file.sha256}}
        found = judge(spec([criterion(0)]), updates_of([{**body, "decision": decision}]), [file]).decision
        assert found is not None
        assert (found.verdict, found.criteria, found.rows) == ("supported", inline.criteria, 100)


def test_caps_of_an_observations_file() -> None:
    """R-142"""
    row: dict[str, Any] = {"item_id": "q", "arm": "a", "seed": 0, "metric": "m", "value": 1, "evaluator_id": "e"}
    assert len(read_rows([row] * MAX_ROWS, "rows")) == MAX_ROWS == 100_000
    assert "100001" in str(read_rows([row] * (MAX_ROWS + 1), "rows").problems[0])
    line = json.dumps(row).encode() + b"\n"
    padded = line + b" " * (MAX_BYTES - len(line))
    assert len(read_file(padded, "rows")) == 1
    assert "10485761" in str(read_file(padded + b" ", "rows").problems[0])


def test_a_file_that_is_wrong_throughout_is_told_in_twenty_sentences() -> None:
    rows, evaluation = report({"accuracy": table(0, 50, 0, 0)})
    wrong = [{**row, "value": 2} for row in rows]
    decision = decide(spec([criterion(0)]), wrong, evaluation)
    assert len(decision.problems) == 20
    assert {problem.rule for problem in decision.problems} == {"R-144"}


def test_the_largest_admissible_file_is_judged_in_seconds() -> None:
    count = 29_000
    rows, evaluation = report({"accuracy": {arm: {0: [1.0] * count} for arm in "tb"}})
    content = "\n".join(json.dumps(row) for row in rows)
    assert 0.9 * MAX_BYTES < len(content) <= MAX_BYTES
    file = file_of("rows.jsonl", "metrics", content)
    decision = {"version": 1, "observations_file": {"name": file.name, "sha256": file.sha256}}
    updates = updates_of([{"status": "running", "evaluation": evaluation, "decision": decision}])
    started = time.perf_counter()
    judgment = judge(spec([criterion(-0.05)]), updates, [file])
    seconds = time.perf_counter() - started
    assert judgment.decision is not None
    assert judgment.decision.verdict == "supported"
    assert seconds < 15, "it takes about a second on an idle machine"


def test_what_a_decision_rests_on_is_kept_with_it() -> None:
    """R-14D"""
    rows, evaluation = report({"accuracy": table(800, 110, 77, 332)})
    file = file_of("rows.jsonl", "metrics", json.dumps(rows))
    decision = {"version": 1, "observations_file": {"name": file.name, "sha256": file.sha256}}
    updates = updates_of([{"status": "running", "evaluation": evaluation, "decision": decision}])
    kept: Any = judge(spec([criterion(-0.05)]), updates, [file]).to_json()["decision"]
    assert (kept["method"], kept["rows"]) == ("paired_hoeffding", 2638)
    assert (kept["file"], kept["file_sha256"]) == (file.name, file.sha256)
    (first,) = kept["criteria"]
    assert (first["n"], first["effect"], first["state"]) == (1319, 33 / 1319, "pass")
    assert first["half_width"] == pytest.approx(0.0747893626, abs=1e-9)
    assert [first["lower"], first["upper"]] == pytest.approx([-0.049770, 0.099808], abs=1e-6)
