"""Puts the rules together: what stands, what is withheld and why.

A judgment is a function of documents alone: the same spec, updates and evidence give the same bytes, on the server,
in a runner's own check and on an exported bundle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from research_exchange.capacity import Capacity, check_capacity
from research_exchange.completeness import Expectation, check_completeness
from research_exchange.decision import Decision, decide_run
from research_exchange.decision_evidence import hold_against_evidence
from research_exchange.deviations import Deviations, Undeclared, find_undeclared, fold_deviations
from research_exchange.documents.evidence import EvidenceFile, EvidenceShelf
from research_exchange.documents.fields import as_list, as_mapping, show
from research_exchange.documents.gates import Flag, GateResult, GateStatus
from research_exchange.documents.json import JsonValue, canonical
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.plain import plain
from research_exchange.documents.receipts import Receipt
from research_exchange.documents.run_state import OutcomeReason, RunState, RunStatus, Verdict
from research_exchange.documents.spec import Spec
from research_exchange.documents.update import StoredUpdate
from research_exchange.evaluation import check_comparability
from research_exchange.evidence import checkpoint_problems
from research_exchange.feasibility import FeasibilityCheck, FeasibilityStatus, check_feasibility
from research_exchange.gate_results import all_gates
from research_exchange.outcome import Basis, Objection, settle, withholds
from research_exchange.predictions import PredictionFiles
from research_exchange.reported import ReportedNumber, reported_flags, reported_numbers
from research_exchange.seed_copies import copied_values
from research_exchange.selection import edge_rates, unplanned_flags
from research_exchange.updates import fold

__all__ = ["VERSION", "Judgment", "judge"]

VERSION = "2"
"""Of the rules as a whole; a recorded judgment keeps the one it was made with (R-214)."""


@dataclass(frozen=True)
class Judgment:
    """The Exchange's own reading of a run."""

    version: str
    spec_sha256: str
    through_update: int
    """The newest update that was read; 0 for none."""
    final_update: int | None
    status: RunStatus
    label: str
    """How far the verdict was checked, in words for a page (R-212, R-215)."""
    reported_verdict: Verdict | None
    reported_reason: OutcomeReason | None
    recorded_verdict: Verdict | None
    """None while the run goes on."""
    outcome_reason: OutcomeReason | None
    """The recorded one."""
    basis: Basis | None
    """What decided the recorded verdict."""
    explanation: str
    withheld: bool
    """A definitive verdict was reported and not recorded."""
    withheld_because: tuple[Objection, ...]
    """Everything that stands against it, weightiest first; empty where nothing is withheld."""
    changed_experiment_verdict: Verdict | None
    gates: tuple[GateResult, ...]
    withholding_gates: tuple[str, ...]
    decision: Decision | None
    """None for a spec without a decision rule."""
    numbers: tuple[ReportedNumber, ...]
    """What the run reports of its arms, each with its provenance; gates and decision carry their own."""
    deviations: Deviations
    undeclared: tuple[Undeclared, ...]
    """Settings that were changed without a word about it (R-080)."""
    capacity: Capacity
    feasibility: Mapping[str, JsonValue]
    """The projection from the timings that the run declares, as `FeasibilityCheck.to_json` (R-178)."""
    evidence: tuple[Expectation, ...]
    receipts: tuple[str, ...]
    """The verified receipts that were read."""
    flags: tuple[Flag, ...]

    def gate(self, name: str) -> GateResult:
        """One gate by name. Raises `KeyError` for a name that is none."""
        return {gate.gate: gate for gate in self.gates}[name]

    def to_json(self) -> dict[str, JsonValue]:
        """The judgment as JSON; a problem or flag also carries its sentence as `text`."""
        return dict(as_mapping(plain(self)))

    def canonical_bytes(self) -> bytes:
        """The same judgment, the same bytes."""
        return canonical(self.to_json())


def judge(
    spec: Spec,
    updates: Sequence[StoredUpdate],
    evidence: Sequence[EvidenceFile],
    receipts: Sequence[Receipt] = (),
    *,
    ended: str | None = None,
    state: RunState | None = None,
) -> Judgment:
    """Judges a run from its documents. Never raises on what they contain.

    Args:
        spec: The spec version the run executes.
        updates: All of the run's updates, malformed and late ones included, in any order.
        evidence: All files the run retains.
        receipts: What services stated about this run; their signatures were verified before.
        ended: Why the last session ended without a final update (R-067); None while one goes on.
        state: What the updates fold to, where the caller has folded them one by one as they came.
    """
    state = fold(spec, updates) if state is None else state
    late = [file for file in evidence if state.final_update is not None and file.after >= state.final_update]
    files = PredictionFiles(EvidenceShelf([file for file in evidence if file not in late]))
    deviations = fold_deviations(state)
    undeclared = find_undeclared(spec, state, files.shelf, deviations)
    comparability = check_comparability(spec, state, files, deviations)
    decision = _decision(spec, state, files, deviations)
    gates, flags = all_gates(spec, state, files.shelf, comparability, decision, receipts)
    capacity = check_capacity(spec, state, updates)
    feasibility = check_feasibility(spec, state)
    numbers = reported_numbers(spec, state, decision, receipts)
    outcome = settle(spec, state, deviations, gates, decision, edges=edge_rates(spec, state), ended=ended)
    return Judgment(
        version=VERSION,
        spec_sha256=spec.sha256,
        through_update=state.last_update,
        final_update=state.final_update,
        status=state.status,
        label=_label(spec, decision),
        reported_verdict=state.verdict,
        reported_reason=state.outcome_reason,
        recorded_verdict=outcome.verdict,
        outcome_reason=outcome.reason,
        basis=outcome.basis,
        explanation=outcome.text,
        withheld=outcome.withheld,
        withheld_because=outcome.objections if outcome.withheld else (),
        changed_experiment_verdict=outcome.changed_experiment_verdict,
        gates=gates,
        withholding_gates=tuple(gate.gate for gate in gates if withholds(spec, gate)),
        decision=decision,
        numbers=numbers,
        deviations=deviations,
        undeclared=undeclared,
        capacity=capacity,
        feasibility=feasibility.to_json(),
        evidence=check_completeness(spec, state, files),
        receipts=tuple(receipt.id for receipt in receipts),
        flags=(
            *state.flags,
            *deviations.flags,
            *_undeclared_flags(undeclared),
            *comparability.flags,
            *_copy_flags(spec, state, decision),
            *_checkpoint_flags(spec, state),
            *_conflict_flags(gates),
            *flags,
            *reported_flags(numbers),
            *unplanned_flags(spec, state),
            *capacity.flags,
            *_feasibility_flags(spec, state, feasibility),
            *_late_flags(late),
            *outcome.flags,
        ),
    )


def _decision(spec: Spec, state: RunState, files: PredictionFiles, deviations: Deviations) -> Decision | None:
    if spec.value.get("decision_rule") is None:
        return None
    return hold_against_evidence(spec, state, decide_run(spec, state, files.shelf), files, deviations)


def _copy_flags(spec: Spec, state: RunState, decision: Decision | None) -> list[Flag]:
    posted = state.latest("decision")
    return [] if decision is None or posted is None else copied_values(spec, decision.grids, posted.update)


def _label(spec: Spec, decision: Decision | None) -> str:
    if decision is not None:
        return "recomputed" if decision.status is GateStatus.PASSED else "reported; not recomputed"
    return "reported; checks unknown; not recomputed" if spec.is_legacy else "reported; not recomputed"


def _checkpoint_flags(spec: Spec, state: RunState) -> list[Flag]:
    flags: list[Flag] = []
    for posted in state.posted.get("evidence", ()):
        problems = (
            problem
            for index, entry in enumerate(as_list(as_mapping(posted.value).get("checkpoints")))
            for problem in checkpoint_problems(entry, spec.arm_names, f"evidence.checkpoints[{index}]")
        )
        flags += [Flag(problem.rule, posted.update, str(problem)) for problem in islice(problems, MAX_PROBLEMS)]
    return flags


def _late_flags(late: Sequence[EvidenceFile]) -> list[Flag]:
    """What comes after the final update changes nothing recorded (R-070); a log has no other time to come."""
    text = "came after the final update; it is kept and changes nothing."
    return [Flag("R-070", file.update, f"The file {show(file.name)} {text}") for file in late if file.kind != "log"]


def _undeclared_flags(undeclared: Sequence[Undeclared]) -> list[Flag]:
    return [
        Flag(
            "R-080",
            None,
            f"{each.source} has {each.setting} {show(each.effective)}; the spec says "
            f"{' or '.join(map(show, each.planned[:5]))}, and no deviation is stated.",
        )
        for each in undeclared
    ]


def _feasibility_flags(spec: Spec, state: RunState, feasibility: FeasibilityCheck) -> list[Flag]:
    """Notes on the projection; and where the spec asks for one, that an arm was completed without it (R-170, R-175)."""
    notes = [Flag("R-170", None, note) for note in feasibility.notes]
    is_asked = spec.value.get("feasibility_required") is True and (state.completed_comparison or state.is_final)
    if not is_asked or feasibility.status is FeasibilityStatus.FITS:
        return notes
    problem = next(iter(feasibility.problems), None)
    text = f"The spec asks for a measured projection that fits; it is {feasibility.status.value}."
    return [Flag("R-170", None, text if problem is None else f"{text} {problem}"), *notes]


def _conflict_flags(gates: Sequence[GateResult]) -> list[Flag]:
    return [Flag("R-086", None, f"{gate.gate}: {gate.reason}") for gate in gates if gate.conflict]
