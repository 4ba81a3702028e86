"""Every gate of a run, each with whether it applies and what became of it (R-010).

A gate that is required never passes by absence: what is missing leaves it unverified.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from research_exchange.activation import check_activation
from research_exchange.correctness import correctness_applicability, read_correctness
from research_exchange.decision import Decision
from research_exchange.documents.evidence import EvidenceShelf
from research_exchange.documents.gates import Applicability, Flag, GateResult, GateStatus, Provenance, Reading
from research_exchange.documents.json import JsonValue
from research_exchange.documents.receipts import Receipt, attest, contradictions
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec
from research_exchange.evaluation import Comparability
from research_exchange.experiment_features import CHECKS, Answer, check_applicability
from research_exchange.generation_audit import read_generation_audit
from research_exchange.manifests import read_manifests
from research_exchange.restoration import read_restoration
from research_exchange.selection import read_selection

__all__ = ["DECISION_GATE", "Gates", "all_gates"]

DECISION_GATE = "decision"
"""The gate that a spec with a `decision_rule` requires."""


class Gates(NamedTuple):
    """All gates of a run."""

    results: tuple[GateResult, ...]
    flags: tuple[Flag, ...]
    """What their rules want a reader to notice."""


def all_gates(
    spec: Spec,
    state: RunState,
    shelf: EvidenceShelf,
    comparability: Comparability,
    decision: Decision | None,
    receipts: Sequence[Receipt] = (),
) -> Gates:
    """One result per name of `CHECKS`, then the decision's.

    Args:
        shelf: What the run retains.
        comparability: What the evaluation report shows.
        decision: None for a spec without a decision rule.
        receipts: What services stated about this run, verified before.
    """
    inputs = _Inputs(spec, state, shelf, comparability, decision)
    gates = [_gate(name, inputs) for name in CHECKS]
    results = [attest(result, receipts) for result, _ in gates]
    return Gates(
        results=(*results, _decision(decision)),
        flags=(
            *(flag for _, flags in gates for flag in flags),
            *(flag for result in results for flag in contradictions(result, receipts)),
        ),
    )


@dataclass(frozen=True)
class _Inputs:
    spec: Spec
    state: RunState
    shelf: EvidenceShelf
    comparability: Comparability
    decision: Decision | None


def _gate(name: str, inputs: _Inputs) -> tuple[GateResult, tuple[Flag, ...]]:
    answer = _applicability(name, inputs)
    if answer["status"] is not Applicability.REQUIRED:
        return GateResult(name, answer["status"], GateStatus(answer["status"].value), answer["reason"]), ()
    reading = _READERS[name](inputs)
    result = GateResult(
        gate=name,
        applicability=Applicability.REQUIRED,
        status=reading.status,
        reason=f"{reading.reason} Required: {answer['reason']}",
        problems=reading.problems,
        computed=reading.computed,
        provenance={**dict.fromkeys(reading.computed, Provenance.DECLARED), **reading.provenance},
        conflict=answer["conflict"],
    )
    return result, reading.flags


def _applicability(name: str, inputs: _Inputs) -> Answer:
    """The spec's answer; only a report of the correctness check has a say in it, too (R-100)."""
    if name != "correctness_preflight":
        return check_applicability(inputs.spec.value, name)
    reports = [posted.value for posted in inputs.state.posted.get(name, ())]
    return correctness_applicability(inputs.spec.value, reports)


def _activation(inputs: _Inputs) -> Reading:
    found = check_activation(inputs.spec, inputs.state)
    reason = found.reason
    if found.earlier_failures:
        reason += f" Earlier calibrations did not hold: update {', '.join(map(str, found.earlier_failures))}."
    return Reading(found.status, reason, found.problems, dict(found.values or {}))


def _comparability(inputs: _Inputs) -> Reading:
    found = inputs.comparability
    shared: dict[str, JsonValue] = dict(found.shared)
    return Reading(found.status, found.reason, found.problems, shared, dict.fromkeys(shared, Provenance.RECOMPUTED))


def _selection(inputs: _Inputs) -> Reading:
    criteria = () if inputs.decision is None else inputs.decision.criteria
    evaluators = frozenset(criterion.evaluator for criterion in criteria)
    return read_selection(inputs.spec, inputs.state, inputs.shelf, evaluators=evaluators)


_READERS: Mapping[str, Callable[[_Inputs], Reading]] = {
    "correctness_preflight": lambda inputs: read_correctness(inputs.spec, inputs.state, inputs.shelf),
    "restoration_preflight": lambda inputs: read_restoration(inputs.spec, inputs.state, inputs.shelf),
    "activation_gate": _activation,
    "adaptation_manifests": lambda inputs: read_manifests(inputs.spec, inputs.state),
    "selection": _selection,
    "generation_audit": lambda inputs: read_generation_audit(inputs.spec, inputs.state, inputs.shelf),
    "evaluation_comparability": _comparability,
}
"""How each gate is read, by its name in `CHECKS`."""


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
    if verdict != reason:
        return f"{verdict}, {reason.replace('_', ' ')}"
    return verdict if decision.condition is None else f"{verdict}, conditional on {decision.condition}"
