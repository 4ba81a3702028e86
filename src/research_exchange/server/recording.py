"""Putting outcomes on record: once when a run ends, and again only when somebody asks (R-070, R-067, R-214)."""

import logging

from research_exchange import judgment as rules
from research_exchange.judgment import Judgment
from research_exchange.server.folding import Folds
from research_exchange.server.hooks import announce_end, announce_gates
from research_exchange.server.judging import Judging
from research_exchange.server.requeueing import requeue_by_itself
from research_exchange.server.views import RunView, view_run
from research_exchange.store import ASKED_FOR, Clock, OutcomeRecord, Reader, Store, Writer

log = logging.getLogger(__name__)

FINAL_UPDATE = "final update"
LOST = "loss of"
PARTIAL = "end of"
CANCELLATION = "cancellation"
"""What the cause of an outcome starts with, by how the run ended."""

NOT_HEARD_OF = "nothing was heard of it any more"
"""Why a session ended whose runner fell silent."""


class Recording:
    """Records what the rules say of a run. An outcome on record is never replaced, only followed by another."""

    def __init__(self, store: Store, clock: Clock, folds: Folds, judging: Judging) -> None:
        self._store = store
        self._clock = clock
        self._folds = folds
        self._judging = judging

    def settle(self, run_id: str) -> None:
        """Record the outcome of a run that has ended, unless this very end is on record already."""
        with self._store.reading() as reader:
            view = self._view(reader, run_id)
        self.settle_view(view)

    def settle_view(self, view: RunView) -> None:
        """`settle`, as somebody sees the run who may not have seen all of it."""
        cause = _end_of(view)
        if cause is None or cause in _causes(view):
            return
        self._record(view, cause)

    def record(self, view: RunView, by: str) -> OutcomeRecord:
        """Record what the rules say now, because somebody asked."""
        return self._record(view, ASKED_FOR, by)

    def settle_all(self) -> None:
        """Settle every run that ended without an outcome: a killed server may have left one behind.

        A run that cannot be settled is logged and left as it is; it must not keep the others from being served.
        """
        with self._store.reading() as reader:
            unsettled = reader.unsettled_runs()
        for run_id in unsettled:
            try:
                self.settle(run_id)
            except Exception:
                log.exception("The outcome of %s could not be recorded.", run_id)

    def _record(self, view: RunView, cause: str, by: str | None = None) -> OutcomeRecord:
        """Record the outcome of an end once, and one that somebody, `by`, asked for each time."""
        while True:
            # Judged before the write lock is taken: a large decision may take seconds.
            judgment = self._judging.judgment(view)
            with self._store.writing() as writer:
                recorded = [outcome for outcome in writer.outcomes(view.run.id) if outcome.cause == cause]
                if by is None and recorded:
                    return recorded[0]
                now = self._view(writer, view.run.id)
                if _basis(now) == _basis(view):
                    return self._put(writer, view, cause, judgment, by)
            view, cause = now, cause if by is not None else _end_of(now) or cause

    def _put(self, writer: Writer, view: RunView, cause: str, judgment: Judgment, by: str | None) -> OutcomeRecord:
        """The outcome, its gates, and what follows from it: all of it or nothing."""
        at, judged = self._clock(), judgment.canonical_bytes()
        outcome = writer.record_outcome(view.run.id, cause, rules.VERSION, judged, at, judgment.gates)
        if by is None:
            requeue_by_itself(writer, view, at)
            announce_gates(writer, view.run.id, judgment.gates, at)
            announce_end(writer, view.run.id, outcome.number, at)
        else:
            writer.add_audit(at, by, "judgment.record", view.run.id, {"outcome": outcome.number})
        return outcome

    def _view(self, reader: Reader, run_id: str) -> RunView:
        view = view_run(reader, self._store, self._folds, run_id)
        assert view is not None, "a run is never deleted"
        return view


def _basis(view: RunView) -> tuple[int, int, str | None]:
    """What a judgment depends on and what can have grown since it was made."""
    return view.updates_total, len(view.evidence), view.ended


def _end_of(view: RunView) -> str | None:
    """What ended the run: its final update, somebody who cancelled it, or its last session."""
    if view.state.is_final:
        return f"{FINAL_UPDATE} {view.state.final_update}"
    if view.cancellation is not None:
        return f"{CANCELLATION} without a final update"
    if view.ended is None:
        return None
    session = view.sessions[-1]
    is_lost = session.end is not None and session.end.reason.endswith(NOT_HEARD_OF)
    return f"{LOST if is_lost else PARTIAL} session {session.id} without a final update"


def _causes(view: RunView) -> set[str]:
    return {outcome.cause for outcome in view.outcomes}
