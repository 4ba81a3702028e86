"""Every gate of a run, each with whether it applies and what became of it (R-010).

A gate that is required and not built yet is unverified with that very reason: it never passes by absence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from research_exchange.activation import check_activation
from research_exchange.decision import Decision
from research_exchange.documents.fields import as_mapping
from research_exchange.documents.gates import Applicability, GateResult, GateStatus, Problem, Provenance
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec
from research_exchange.evaluation import Comparability
from research_exchange.experiment_features import CHECKS, Answer, check_applicability

__all__ = ["DECISION_GATE", "all_gates"]

DECISION_GATE = "decision"
"""The gate that a spec with a `decision_rule` requires."""


def all_gates(
    spec: Spec, state: RunState, comparability: Comparability, decision: Decision | None
) -> tuple[GateResult, ...]:
    """One result per name of `CHECKS`, then the decision's.

    Args:
        comparability: What the evaluation report shows.
        decision: None for a spec without a decision rule.
    """
    inputs = _Inputs(spec, state, comparability)
    return (*(_gate(name, inputs) for name in CHECKS), _decision(decision))


@dataclass(frozen=True)
class _Inputs:
    spec: Spec
    state: RunState
    comparability: Comparability


@dataclass(frozen=True)
class _Reading:
    """What a rule found, before its applicability is considered."""

    status: GateStatus
    reason: str
    problems: tuple[Problem, ...] = ()
    computed: Mapping[str, JsonValue] = field(default_factory=dict)
    provenance: Provenance = Provenance.DECLARED


_RULES = {
    "correctness_preflight": "R-100",
    "restoration_preflight": "R-090",
    "adaptation_manifests": "R-180",
    "selection": "R-150",
    "generation_audit": "R-190",
}
"""The rule behind each gate that is not built yet."""


def _gate(name: str, inputs: _Inputs) -> GateResult:
    answer = _applicability(name, inputs)
    if answer["status"] is not Applicability.REQUIRED:
        return GateResult(name, answer["status"], GateStatus(answer["status"].value), answer["reason"])
    reading = _read(name, inputs)
    return GateResult(
        gate=name,
        applicability=Applicability.REQUIRED,
        status=reading.status,
        reason=f"{reading.reason} Required: {answer['reason']}",
        problems=reading.problems,
        computed=reading.computed,
        provenance=dict.fromkeys(reading.computed, reading.provenance),
        conflict=answer["conflict"],
    )


def _applicability(name: str, inputs: _Inputs) -> Answer:
    """The spec's answer; a report may ask for the correctness check as well, but never waive it (R-100)."""
    answer = check_applicability(inputs.spec.value, name)
    posted = inputs.state.latest(name) if name == "correctness_preflight" else None
    if posted is None or as_mapping(posted.value).get("required") is not True:
        return answer
    if answer["status"] is Applicability.REQUIRED:
        return answer
    reason = f"update {posted.update} reports that it is required."
    return {"status": Applicability.REQUIRED, "reason": reason, "conflict": False}


def _read(name: str, inputs: _Inputs) -> _Reading:
    if name == "activation_gate":
        return _activation(inputs.spec, inputs.state)
    if name == "evaluation_comparability":
        return _comparability(inputs.comparability)
    return _not_built(name)


def _activation(spec: Spec, state: RunState) -> _Reading:
    found = check_activation(spec, state)
    computed: dict[str, JsonValue] = dict(found.values or {})
    reason = found.reason
    if found.earlier_failures:
        reason += f" Earlier calibrations did not hold: update {', '.join(map(str, found.earlier_failures))}."
    return _Reading(found.status, reason, found.problems, computed)


def _comparability(found: Comparability) -> _Reading:
    computed: dict[str, JsonValue] = dict(found.shared)
    return _Reading(found.status, found.reason, found.problems, computed, Provenance.RECOMPUTED)


def _not_built(name: str) -> _Reading:
    action = "Read the report and its evidence yourself; a later version of the Exchange will check them."
    problem = Problem(_RULES[name], name, "a check by the Exchange", "a version that does not have it yet", action)
    return _Reading(GateStatus.UNVERIFIED, "This version of the Exchange cannot check it yet.", (problem,))


def _decision(decision: Decision | None) -> GateResult:
    if decision is None:
        reason = "The spec has no decision_rule, so nothing is recomputed."
        return GateResult(DECISION_GATE, Applicability.NOT_APPLICABLE, GateStatus.NOT_APPLICABLE, reason)
    if decision.status is GateStatus.PASSED:
        reason = f"Recomputed from {decision.rows} rows: {_outcome(decision)}."
    else:
        reason = "It could not be recomputed."
    computed: dict[str, JsonValue] = {
        "verdict": decision.verdict.value,
        "outcome_reason": decision.outcome_reason.value,
        "rows": decision.rows,
    }
    return GateResult(
        gate=DECISION_GATE,
        applicability=Applicability.REQUIRED,
        status=decision.status,
        reason=reason,
        problems=decision.problems,
        computed=computed,
        provenance=dict.fromkeys(computed, Provenance.RECOMPUTED),
    )


def _outcome(decision: Decision) -> str:
    verdict, reason = decision.verdict.value, decision.outcome_reason.value
    return verdict if verdict == reason else f"{verdict}, {reason.replace('_', ' ')}"
