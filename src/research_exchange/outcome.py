"""What is recorded: the reported verdict where everything bears it out, inconclusive where not (contract §5, §19).

A reported verdict is kept for ever beside the recorded one, and an inconclusive one is never upgraded (R-213).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from research_exchange.decision import Decision
from research_exchange.deviations import Deviations
from research_exchange.documents.fields import as_list, show, show_names
from research_exchange.documents.gates import Applicability, Flag, GateResult, GateStatus
from research_exchange.documents.run_state import DEFINITIVE, OutcomeReason, RunState, RunStatus, Verdict
from research_exchange.documents.spec import Spec
from research_exchange.gate_results import DECISION_GATE
from research_exchange.selection import EdgeRate

__all__ = ["LEGACY_UNKNOWN_WITHHOLDS", "ON_SCIENCE_ALONE", "Basis", "Objection", "Outcome", "settle", "withholds"]

LEGACY_UNKNOWN_WITHHOLDS: Final = False
"""Whether an unknown applicability withholds the verdict of a spec written before features were declared (R-212)."""


_DEFINITIVE_REASONS = frozenset({OutcomeReason.SUPPORTED, OutcomeReason.REFUTED})
"""No reasons for an inconclusive record, whatever was reported (R-064)."""


class Basis(StrEnum):
    """What decided the recorded verdict; in this order of precedence (R-211)."""

    CHANGED_EXPERIMENT = "changed_experiment"
    """Another hypothesis was tested than the spec's."""
    INCOMPLETE_EXECUTION = "incomplete_execution"
    """An arm is missing, or the run failed or never finished."""
    REPORT = "report"
    """The report states no verdict, one that contradicts itself, or nothing clear about the hypothesis."""
    GATE = "gate"
    """A required gate did not pass."""
    DECISION_UNVERIFIED = "decision_unverified"
    """The decision could not be recomputed."""
    DECISION = "decision"
    """The recomputed decision is inconclusive."""
    MISMATCH = "mismatch"
    """The recomputed decision is another one than the reported verdict."""
    LEARNING_RATE_EDGE = "learning_rate_edge"
    """A selected learning rate is the lowest or the highest of its grid."""
    REPORTED = "reported"
    """The run reports an inconclusive verdict, and nothing contradicts it."""
    AGREED = "agreed"
    """Everything that applies bears the reported verdict out."""


ON_SCIENCE_ALONE = frozenset({Basis.DECISION, Basis.REPORTED, Basis.AGREED})
"""What a verdict rests on that nothing about the execution or the report stands against; it may be inconclusive."""


@dataclass(frozen=True)
class Objection:
    """One thing that stands against recording a definitive verdict."""

    basis: Basis
    subject: str
    """What it is about: the name of a gate, `execution`, `deviation`, `report`, `decision`, `learning_rate`."""
    text: str
    reason: OutcomeReason | None
    """The outcome reason to record where this objection is the first."""


@dataclass(frozen=True)
class Outcome:
    """The recorded outcome of a run (R-011)."""

    verdict: Verdict | None
    """None while the run goes on."""
    reason: OutcomeReason | None
    basis: Basis | None
    text: str
    """One sentence for the reader."""
    withheld: bool
    """A definitive verdict was reported and not recorded."""
    objections: tuple[Objection, ...]
    """Everything against a definitive verdict, in order of precedence."""
    changed_experiment_verdict: Verdict | None
    """The verdict of the experiment that was run instead (R-079)."""
    flags: tuple[Flag, ...]


def settle(
    spec: Spec,
    state: RunState,
    deviations: Deviations,
    gates: Sequence[GateResult],
    decision: Decision | None,
    *,
    edges: Sequence[EdgeRate] = (),
    ended: str | None = None,
) -> Outcome:
    """Puts everything together.

    Args:
        gates: Every gate, that of the decision included.
        decision: None for a spec without a decision rule.
        edges: The selected learning rates at the edge of their grids (R-152).
        ended: Why the run ended without a final update (R-067); None for one that goes on or has one.
    """
    flags = _report_flags(state)
    if not state.is_final and ended is None:
        return Outcome(None, None, None, "The run has not ended.", False, (), None, flags)
    objections = (
        _deviation_objections(deviations)
        + _execution_objections(spec, state, ended)
        + _report_objections(state, deviations)
        + _gate_objections(spec, gates)
        + _decision_objections(state, decision)
        + _edge_objections(edges)
    )
    first = objections[0] if objections else None
    verdict = state.verdict if first is None else Verdict.INCONCLUSIVE
    reason = _agreed_reason(state, decision) if first is None else first.reason
    return Outcome(
        verdict=verdict,
        reason=None if verdict is Verdict.INCONCLUSIVE and reason in _DEFINITIVE_REASONS else reason,
        basis=_agreed(state) if first is None else first.basis,
        text=f"The reported verdict stands: {verdict}." if first is None else first.text,
        withheld=state.verdict in DEFINITIVE and verdict not in DEFINITIVE,
        objections=objections,
        changed_experiment_verdict=state.verdict if deviations.hypothesis_tested is False else None,
        flags=flags,
    )


def withholds(spec: Spec, gate: GateResult) -> bool:
    """Whether a gate stands in the way of a definitive verdict (R-210, R-212)."""
    if gate.applicability is Applicability.UNKNOWN:
        return LEGACY_UNKNOWN_WITHHOLDS or not spec.is_legacy
    return gate.applicability is Applicability.REQUIRED and gate.status is not GateStatus.PASSED


def _agreed(state: RunState) -> Basis:
    return Basis.AGREED if state.verdict in DEFINITIVE else Basis.REPORTED


def _agreed_reason(state: RunState, decision: Decision | None) -> OutcomeReason | None:
    return state.outcome_reason if decision is None else decision.outcome_reason


def _deviation_objections(deviations: Deviations) -> tuple[Objection, ...]:
    if deviations.hypothesis_tested is not False:
        return ()
    instead = f"it tested {show(deviations.tested_instead)}" if deviations.tested_instead else "it does not say which"
    text = f"The run tested another hypothesis than its spec's; {instead}."
    return (Objection(Basis.CHANGED_EXPERIMENT, "deviation", text, None),)


def _execution_objections(spec: Spec, state: RunState, ended: str | None) -> tuple[Objection, ...]:
    found = []
    if not state.is_final:
        found.append(f"The run ended without a final update: {ended}")
    if state.status is RunStatus.FAILED:
        found.append("The run reports that it failed.")
    arms = spec.value.get("arms")
    if len(spec.arms) < len(as_list(arms)) or not isinstance(arms, (list, tuple, type(None))):
        found.append("The spec names an arm twice or not at all, so nothing can show that every arm was completed.")
    missing = [arm for arm in spec.arm_names if arm not in state.completed_arms]
    if missing:
        found.append(f"Not every arm was completed; {show_names(missing)} is missing.")
    reason: OutcomeReason | None = OutcomeReason.INCOMPLETE_EXECUTION
    if state.verdict is Verdict.INCONCLUSIVE and state.outcome_reason not in (None, *_DEFINITIVE_REASONS):
        reason = state.outcome_reason
    return tuple(Objection(Basis.INCOMPLETE_EXECUTION, "execution", text, reason) for text in found)


def _report_objections(state: RunState, deviations: Deviations) -> tuple[Objection, ...]:
    if not state.is_final:
        return ()
    return _unclear_hypothesis(deviations) + _verdict_objections(state)


def _unclear_hypothesis(deviations: Deviations) -> tuple[Objection, ...]:
    if deviations.hypothesis_tested is not None:
        return ()
    text = "The run says neither true nor false of original_hypothesis_tested."
    return (Objection(Basis.REPORT, "deviation", text, None),)


def _verdict_objections(state: RunState) -> tuple[Objection, ...]:
    if state.verdict is None:
        text = "The run ended without a valid verdict."
        return (Objection(Basis.REPORT, "report", text, state.outcome_reason),)
    if _contradicts_itself(state):
        text = f"The report contradicts itself: {state.verdict} for the reason {state.outcome_reason}."
        return (Objection(Basis.REPORT, "report", text, state.outcome_reason),)
    return ()


def _contradicts_itself(state: RunState) -> bool:
    """A definitive verdict goes with the reason of its own name, or with none (R-064)."""
    reason = state.outcome_reason
    return state.verdict in DEFINITIVE and reason is not None and reason.value != state.verdict


def _gate_objections(spec: Spec, gates: Sequence[GateResult]) -> tuple[Objection, ...]:
    return tuple(
        Objection(
            Basis.GATE, gate.gate, f"{gate.gate} is {gate.status}: {gate.reason}", OutcomeReason.INSUFFICIENT_EVIDENCE
        )
        for gate in gates
        if gate.gate != DECISION_GATE and withholds(spec, gate)
    )


def _decision_objections(state: RunState, decision: Decision | None) -> tuple[Objection, ...]:
    if decision is None:
        return ()
    if decision.status is not GateStatus.PASSED:
        text = f"The decision could not be recomputed. {decision.problems[0]}"
        return (Objection(Basis.DECISION_UNVERIFIED, DECISION_GATE, text, decision.outcome_reason),)
    if decision.verdict not in DEFINITIVE:
        text = f"The recomputed decision is inconclusive: {decision.outcome_reason.value.replace('_', ' ')}."
        return (Objection(Basis.DECISION, DECISION_GATE, text, decision.outcome_reason),)
    if decision.verdict is not state.verdict:
        reported = "no verdict" if state.verdict is None else state.verdict.value
        text = f"The run reports {reported}, the recomputed decision is {decision.verdict}."
        reason = state.outcome_reason if state.verdict is Verdict.INCONCLUSIVE else None
        return (Objection(Basis.MISMATCH, DECISION_GATE, text, reason),)
    return ()


def _edge_objections(edges: Sequence[EdgeRate]) -> tuple[Objection, ...]:
    """A better rate may lie beyond the edge, and then the comparison was not between tuned arms (R-152)."""
    return tuple(
        Objection(
            Basis.LEARNING_RATE_EDGE,
            "learning_rate",
            f"The learning rate {show(edge.selected)} of {show(edge.arm)} is at the edge of its grid.",
            OutcomeReason.INSUFFICIENT_EVIDENCE,
        )
        for edge in edges
    )


def _report_flags(state: RunState) -> tuple[Flag, ...]:
    """Combinations of the §5 matrix that a reader should notice."""
    succeeded = state.status is RunStatus.SUCCEEDED
    failed = state.status is RunStatus.FAILED
    inconclusive = state.verdict is Verdict.INCONCLUSIVE
    definitive = state.verdict in DEFINITIVE
    reason = state.outcome_reason
    checks = (
        (state.is_final and state.verdict is None, "R-062", "The run finished without a valid verdict."),
        (failed and definitive, "R-063", f"A failed run reports {state.verdict}."),
        (
            _contradicts_itself(state),
            "R-064",
            f"The verdict {state.verdict} does not go with the reason {reason}.",
        ),
        (
            inconclusive and reason in _DEFINITIVE_REASONS,
            "R-064",
            f"An inconclusive verdict does not go with the reason {reason}.",
        ),
        (
            succeeded and inconclusive and reason is OutcomeReason.INCOMPLETE_EXECUTION,
            "R-064",
            "The run reports that it succeeded and that its execution is incomplete.",
        ),
    )
    return tuple(Flag(rule, state.final_update, text) for holds, rule, text in checks if holds)
