"""The original specs of two experiments, as their authors saved them, are read and judged."""

import pytest

from research_exchange.documents import GateStatus, Spec
from research_exchange.judgment import judge
from tests.research_exchange.rules.support import EXPERIMENTS, updates_of, vectors

MEASURED = vectors("correctness")["bases"]["loss"]["report"]["paths"][0]
UPDATES = {
    "nothing reported": [],
    "perfect numbers": [
        {"correctness_preflight": {"required": True, "paths": [{**MEASURED, "id": "gs1_advantage_rl_loss"}]}}
    ],
    "waived by the report": [{"correctness_preflight": {"required": False, "paths": []}}],
}


def original(name: str) -> Spec:
    return Spec.parse((EXPERIMENTS / name / "spec.original.json").read_bytes())


@pytest.mark.parametrize("name", ["gs1_vs_grpo", "score_centering"])
def test_an_original_spec_is_judged_without_a_verdict(name: str) -> None:
    judgment = judge(original(name), [], [])
    assert judgment.recorded_verdict is None
    assert GateStatus.PASSED not in {gate.status for gate in judgment.gates}


def test_weights_that_no_arm_answers_to_keep_the_decision_from_being_made() -> None:
    """R-14C"""
    problems = judge(original("gs1_vs_grpo"), [], []).gate("decision").problems
    assert [problem.path for problem in problems if problem.rule == "R-14C"] == [
        "decision_rule.criteria[0].weights.treatment",
        "decision_rule.criteria[0].weights.baseline",
    ]


@pytest.mark.parametrize("posted", UPDATES)
def test_an_unresolved_reference_leaves_the_correctness_gate_unverified(posted: str) -> None:
    """R-109"""
    gate = judge(original("gs1_vs_grpo"), updates_of(UPDATES[posted]), []).gate("correctness_preflight")
    assert gate.status is GateStatus.UNVERIFIED
    first = gate.problems[0]
    assert (first.rule, first.path) == ("R-109", "correctness_preflight.paths[0].reference_revision")
