"""The corrected GS1 spec end to end: an honest run of it passes every gate, one of the original is withheld."""

import json
from typing import Any

from research_exchange.documents import Applicability, GateStatus, Verdict
from research_exchange.documents.run_document import RunDocument
from research_exchange.judgment import Judgment, judge
from tests.research_exchange.rules.honest_run import honest_run
from tests.research_exchange.rules.support import EXPERIMENTS


def judged(document: dict[str, Any]) -> Judgment:
    run = RunDocument.parse(json.dumps(document).encode())
    return judge(run.spec, run.updates, run.evidence, ended=run.ended)


def test_an_honest_run_passes_every_gate_and_its_verdict_stands() -> None:
    judgment = judged(honest_run())
    required = [gate for gate in judgment.gates if gate.applicability is Applicability.REQUIRED]
    assert {gate.gate for gate in required} == {
        "activation_gate",
        "correctness_preflight",
        "decision",
        "evaluation_comparability",
        "restoration_preflight",
    }
    assert {gate.status for gate in required} == {GateStatus.PASSED}
    assert {gate.applicability for gate in judgment.gates} == {Applicability.REQUIRED, Applicability.NOT_APPLICABLE}
    assert judgment.recorded_verdict is Verdict.SUPPORTED
    assert judgment.flags == ()
    assert judgment.feasibility["status"] == "fits"


def test_the_same_run_of_the_original_spec_is_withheld() -> None:
    """R-109 and R-14C: what was measured and what came out do not matter."""
    spec = json.loads((EXPERIMENTS / "gs1_vs_grpo" / "spec.original.json").read_bytes())
    judgment = judged({**honest_run(), "spec": spec})
    assert judgment.recorded_verdict is Verdict.INCONCLUSIVE
    assert {"correctness_preflight", "decision"} <= set(judgment.withholding_gates)
    assert judgment.gate("correctness_preflight").status is GateStatus.UNVERIFIED
    assert (
        judgment.gate("correctness_preflight").problems[0].path == "correctness_preflight.paths[0].reference_revision"
    )
