"""Puts the page of a run together. What follows from its judgment is drawn once for each judgment."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from urllib.parse import quote
from weakref import ReferenceType, ref

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.documents.gates import Applicability, GateResult
from research_exchange.judgment import Judgment
from research_exchange.presentation.banner import Banner
from research_exchange.presentation.criteria import ComparedNumber, CriterionPanel, compared_numbers, criteria
from research_exchange.server import Exchange, RunView
from research_exchange.server.events import Position
from research_exchange.server.listing import Recorded, recorded_of
from research_exchange.store import OutcomeRecord, UpdateHead
from research_exchange.web.run.banner import banner, goes_on
from research_exchange.web.run.budget import Budget, budget
from research_exchange.web.run.checks import AuditTable, CorrectnessTable, Manifests, audit, correctness, manifests
from research_exchange.web.run.course import Course, course
from research_exchange.web.run.evaluators import EvaluatorPanel, evaluators
from research_exchange.web.run.inputs import Inputs
from research_exchange.web.run.metrics import ArmRow, MetricTable, arm_rows, run_metrics
from research_exchange.web.run.starts import Starts, starts

MAX_KEPT = 8
"""Runs whose panels stay in memory, as many as the Exchange keeps judgments of."""
MAX_SHOWN_UPDATES = 12


@dataclass(frozen=True)
class Panels:
    """All of the page that follows from one judgment and what it was made from."""

    inputs: Inputs
    gates: tuple[GateResult, ...]
    """Those that apply first."""
    criteria: tuple[CriterionPanel, ...]
    numbers: tuple[ComparedNumber, ...]
    metrics: MetricTable
    arms: tuple[ArmRow, ...]
    evaluators: tuple[EvaluatorPanel, ...]
    starts: Starts | None
    correctness: CorrectnessTable | None
    manifests: Manifests | None
    audit: AuditTable | None
    budget: Budget | None
    lost: Mapping[str, str]
    """Files whose stored bytes are gone or changed, each with what is wrong (R-16C)."""


@dataclass(frozen=True)
class RecordRow:
    outcome: OutcomeRecord
    recorded: Recorded


@dataclass(frozen=True)
class RunPage:
    view: RunView
    judgment: Judgment
    """Of this moment."""
    banner: Banner
    contradicted: bool
    """What the Exchange holds now leads to another verdict than the one that the run ended with."""
    panels: Panels
    course: Course
    record: tuple[RecordRow, ...]
    """Every outcome on record, newest first."""
    position: Position | None
    """How much of the run's events the page has; None for a run that has ended."""

    @property
    def newest_updates(self) -> list[UpdateHead]:
        return self.view.newest_heads[: -MAX_SHOWN_UPDATES - 1 : -1]


class RunPages:
    """The pages of runs. Safe to use from several threads."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._kept: OrderedDict[str, tuple[ReferenceType[Judgment], Panels]] = OrderedDict()
        self._lock = Lock()

    def page(self, run_id: str) -> RunPage:
        """
        Raises:
            ApiError: 404 for a run that is not known.
        """
        view = self._exchange.view(run_id)
        judgment = self._exchange.judging.judgment(view)
        recorded = view.recorded
        contradicted = (
            recorded is not None and not goes_on(view) and recorded["recorded_verdict"] != judgment.recorded_verdict
        )
        return RunPage(
            view=view,
            judgment=judgment,
            banner=banner(view, recorded, contradicted=contradicted),
            contradicted=contradicted,
            panels=self._panels(view, judgment),
            course=course(view),
            record=tuple(RecordRow(outcome, recorded_of(outcome)) for outcome in reversed(view.outcomes)),
            position=_position(view) if goes_on(view) else None,
        )

    def _panels(self, view: RunView, judgment: Judgment) -> Panels:
        """One judgment is one object for as long as what it was made from stays the same."""
        with self._lock:
            kept = self._kept.get(view.run.id)
        if kept is not None and kept[0]() is judgment:
            return kept[1]
        drawn = _draw(view, judgment)
        with self._lock:
            self._kept[view.run.id] = (ref(judgment), drawn)
            self._kept.move_to_end(view.run.id)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return drawn


def _draw(view: RunView, judgment: Judgment) -> Panels:
    spec, state = view.spec, view.state
    required = {gate.gate for gate in judgment.gates if gate.applicability is Applicability.REQUIRED}
    return Panels(
        inputs=Inputs(view.run.id, spec, state, {file.name: file_address(view, file.name) for file in view.files}),
        gates=tuple(sorted(judgment.gates, key=lambda gate: gate.applicability is Applicability.NOT_APPLICABLE)),
        criteria=criteria(judgment.decision),
        numbers=compared_numbers(judgment),
        metrics=run_metrics(state),
        arms=arm_rows(spec, state),
        evaluators=evaluators(state),
        starts=starts(spec, state, required="restoration_preflight" in required),
        correctness=correctness(spec, state, required="correctness_preflight" in required),
        manifests=manifests(state, required="adaptation_manifests" in required),
        audit=audit(spec, state, required="generation_audit" in required),
        budget=budget(spec, state, judgment.feasibility),
        lost=_lost(view),
    )


def file_address(view: RunView, name: str) -> str:
    return f"/api/runs/{view.run.id}/evidence/{quote(name)}"


def _lost(view: RunView) -> dict[str, str]:
    lost = {}
    for file in view.files:
        try:
            file.read()
        except EvidenceLost as error:
            lost[file.name] = str(error)
    return lost


def _position(view: RunView) -> Position:
    """What a reader of the page has been told already."""
    return Position(
        updates=view.updates_total,
        evidence=len(view.evidence),
        sessions=len(view.sessions),
        ends=sum(session.end is not None for session in view.sessions),
        queued=len(view.queue),
        cancellations=int(view.cancellation is not None),
        outcomes=len(view.outcomes),
    )
