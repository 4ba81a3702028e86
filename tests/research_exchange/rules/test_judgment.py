"""Whole runs: what each row of the contract's accept and reject tables makes of a run that is sound otherwise."""

import json
from typing import Any

import pytest

from research_exchange import outcome
from research_exchange.documents.gates import Applicability, GateStatus
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.judgment import Judgment
from tests.research_exchange.rules.support import judge_bundle, patched, vectors

RUNS = vectors("runs")
CASES = {case["name"]: case for case in RUNS["cases"]}


def rules_named(judgment: Judgment) -> set[str]:
    problems = [problem.rule for gate in judgment.gates for problem in gate.problems]
    return {*problems, *(flag.rule for flag in judgment.flags)}


@pytest.mark.parametrize("name", CASES)
def test_run(name: str) -> None:
    case = CASES[name]
    expect: dict[str, Any] = case["expect"]
    judgment = judge_bundle(patched(RUNS["base"], case["patch"]))
    because = list(dict.fromkeys(objection.subject for objection in judgment.withheld_because))
    found = {
        "recorded": judgment.recorded_verdict,
        "withheld": judgment.withheld,
        "reason": judgment.outcome_reason,
        "basis": judgment.basis,
        "label": judgment.label,
        "gates": {gate: judgment.gate(gate).status for gate in expect.get("gates", {})},
        "withheld_because": because,
        "changed_experiment_verdict": judgment.changed_experiment_verdict,
        "decision": judgment.decision.verdict if judgment.decision else None,
        "deviations": {item.field: item.recording for item in judgment.deviations.items},
    }
    assert {key: found[key] for key in expect} == expect
    assert set(case["rules"]) <= rules_named(judgment)


def test_case_names_are_different() -> None:
    assert len(CASES) == len(RUNS["cases"])


def test_a_run_that_ended_without_a_final_update_is_a_partial_result() -> None:
    """R-067"""
    bundle = patched(RUNS["base"], [{"op": "remove", "path": "/updates/2"}])
    judgment = judge_bundle(bundle, ended="the script exited with code 137.")
    assert judgment.recorded_verdict == "inconclusive"
    assert (judgment.outcome_reason, judgment.basis) == ("incomplete_execution", "incomplete_execution")
    assert "code 137" in judgment.explanation
    assert not judgment.withheld, "nothing definitive was reported"


def test_an_end_is_not_looked_at_once_there_is_a_final_update() -> None:
    assert judge_bundle(RUNS["base"], ended="the script exited with code 1.").recorded_verdict == "supported"


@pytest.mark.parametrize(("withholds", "recorded"), [(False, "refuted"), (True, "inconclusive")])
def test_one_constant_says_whether_unknown_checks_withhold_a_legacy_verdict(
    withholds: bool, recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-212"""
    case = CASES["a legacy spec keeps the reported verdict, labelled"]
    monkeypatch.setattr(outcome, "LEGACY_UNKNOWN_WITHHOLDS", withholds)
    judgment = judge_bundle(patched(RUNS["base"], case["patch"]))
    assert (judgment.recorded_verdict, judgment.withheld) == (recorded, withholds)


def test_numbers_say_where_they_come_from() -> None:
    judgment = judge_bundle(RUNS["base"])
    assert judgment.decision is not None
    assert judgment.decision.provenance == "recomputed"
    assert judgment.gate("activation_gate").provenance == dict.fromkeys(
        ("reward_spread", "group_size", "model"), "declared"
    )
    (evaluator,) = judgment.gate("evaluation_comparability").computed.values()
    assert evaluator in RUNS["base"]["updates"][2]["evaluation"]["evaluators"]


def test_the_json_form_holds_the_decision_and_the_sentences() -> None:
    case = CASES["decision: a row is missing"]
    value: Any = judge_bundle(patched(RUNS["base"], case["patch"])).to_json()
    gate = next(gate for gate in value["gates"] if gate["gate"] == "decision")
    assert gate["problems"][0]["text"] == (
        'R-143 decision.observations: expected 8 items of "trained" with seed 0 on "accuracy", '
        'found 7 usable; "q3" is missing. Report every value once; nothing is inferred, dropped or clipped.'
    )
    whole: Any = judge_bundle(RUNS["base"]).to_json()
    (criterion,) = whole["decision"]["criteria"]
    assert (criterion["n"], criterion["effect"], criterion["state"]) == (8, 0.5, "pass")
    assert criterion["half_width"] == pytest.approx(0.9603227913, abs=1e-10)
    assert criterion["means"] == {"trained": 0.75, "untrained": 0.25}


def test_earlier_calibrations_that_did_not_hold_stay_visible() -> None:
    """R-126"""
    case = CASES["activation: the latest calibration decides"]
    gate = judge_bundle(patched(RUNS["base"], case["patch"])).gate("activation_gate")
    assert "Earlier calibrations did not hold: update 1." in gate.reason


def test_objections_are_all_listed_and_the_weightiest_decides() -> None:
    """R-211"""
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": "/updates/2/status", "value": "failed"},
        {"op": "add", "path": "/updates/2/original_hypothesis_tested", "value": False},
        {"op": "replace", "path": "/updates/2/outcome_reason", "value": "tie"},
        {"op": "replace", "path": "/updates/0/activation_calibration/values/group_size", "value": 2},
        {"op": "remove", "path": "/updates/2/decision"},
    ]
    order = ["changed_experiment", "incomplete_execution", "report", "gate", "decision_unverified"]
    for start in range(len(order)):
        judgment = judge_bundle(patched(RUNS["base"], [operations[1], operations[0], *operations[2:]][start:]))
        assert [objection.basis for objection in judgment.withheld_because] == order[start:]
        assert judgment.basis == order[start]


@pytest.mark.parametrize("verdict", ["inconclusive", None])
def test_an_inconclusive_record_never_has_a_definitive_reason(verdict: str | None) -> None:
    """R-064: whatever the report says."""
    final = "/updates/2"
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": f"{final}/verdict", "value": verdict},
        {"op": "replace", "path": f"{final}/outcome_reason", "value": "supported"},
    ]
    judgment = judge_bundle(patched(RUNS["base"], operations))
    assert (judgment.recorded_verdict, judgment.outcome_reason) == ("inconclusive", None)
    operations.append({"op": "replace", "path": f"{final}/completed_arms", "value": []})
    assert judge_bundle(patched(RUNS["base"], operations)).outcome_reason == "incomplete_execution"


@pytest.mark.parametrize("limits", [{"min": 1}, {}])
def test_ten_thousand_activation_checks_do_not_make_ten_thousand_sentences(limits: dict[str, Any]) -> None:
    checks = [{"metric": f"metric {number}", **limits} for number in range(10_000)]
    bundle = patched(RUNS["base"], [])
    bundle["spec"]["activation_gate"] = {"applicable": True, "checks": checks}
    bundle["updates"][0]["activation_calibration"] = {"values": {}}
    gate = judge_bundle(bundle).gate("activation_gate")
    assert gate.status != "passed"
    assert 0 < len(gate.problems) <= MAX_PROBLEMS
    assert not limits or "10000 of 10000" in gate.reason


@pytest.mark.parametrize("name", CASES)
def test_a_gate_is_recomputed_and_says_so_in_one_form(name: str) -> None:
    """R-010: five statuses that follow from three applicabilities, a problem for all that is wrong, no claim taken."""
    bundle = patched(RUNS["base"], CASES[name]["patch"])
    gates = judge_bundle(bundle).gates
    for gate in gates:
        if gate.applicability is Applicability.REQUIRED:
            assert gate.status in (GateStatus.PASSED, GateStatus.FAILED, GateStatus.UNVERIFIED)
            assert bool(gate.problems) == (gate.status is not GateStatus.PASSED), gate.gate
        else:
            assert gate.status.value == gate.applicability.value
            assert (gate.problems, dict(gate.computed)) == ((), {})
    claims = [{"gate": gate.gate, "applicability": "required", "status": "passed", "problems": []} for gate in gates]
    claimed = [{**update, "gates": claims} for update in bundle["updates"]]
    assert judge_bundle({**bundle, "updates": claimed}).gates == gates


def test_a_calibration_that_is_not_a_number_is_no_calibration() -> None:
    """R-125, R-240: NaN is in no JSON; the update that has it counts for nothing and is kept."""
    bundle = patched(RUNS["base"], [])
    raw = json.dumps(bundle["updates"][0])
    value = json.dumps(bundle["updates"][0]["activation_calibration"]["values"]["group_size"])
    bundle["updates"][0] = raw.replace(f'"group_size": {value}', '"group_size": NaN').encode()
    judgment = judge_bundle(bundle)
    assert b"NaN" in bundle["updates"][0]
    assert (judgment.recorded_verdict, judgment.withheld_because[0].subject) == ("inconclusive", "activation_gate")
    assert judgment.gate("activation_gate").status is not GateStatus.PASSED
