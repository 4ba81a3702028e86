"""Putting outcomes on record: once when a run ends, and again only when somebody asks (R-070, R-067, R-214)."""

import logging

from research_exchange import judgment
from research_exchange.server.views import RunView, view_run
from research_exchange.store import Clock, OutcomeRecord, Reader, Store

log = logging.getLogger(__name__)

ASKED_FOR = "asked for"


class Recording:
    """Records what the rules say of a run. An outcome on record is never replaced, only followed by another."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def settle(self, view: RunView) -> None:
        """Record the outcome of a run that has ended, unless this very end is on record already."""
        cause = _end_of(view)
        if cause is None or cause in _causes(view):
            return
        self._record(view, cause, once=True)

    def record(self, view: RunView) -> OutcomeRecord:
        """Record what the rules say now, because somebody asked."""
        return self._record(view, ASKED_FOR, once=False)

    def settle_all(self) -> None:
        """Settle every run that ended without an outcome: a killed server may have left one behind.

        A run that cannot be settled is logged and left as it is; it must not keep the others from being served.
        """
        with self._store.reading() as reader:
            unsettled = reader.unsettled_runs()
        for run_id in unsettled:
            try:
                with self._store.reading() as reader:
                    view = self._view(reader, run_id)
                self.settle(view)
            except Exception:
                log.exception("The outcome of %s could not be recorded.", run_id)

    def _record(self, view: RunView, cause: str, *, once: bool) -> OutcomeRecord:
        while True:
            # Judged before the write lock is taken: a large decision may take seconds.
            judged = view.judge().canonical_bytes()
            with self._store.writing() as writer:
                recorded = [outcome for outcome in writer.outcomes(view.run.id) if outcome.cause == cause]
                if once and recorded:
                    return recorded[0]
                now = self._view(writer, view.run.id)
                if _basis(now) == _basis(view):
                    return writer.record_outcome(view.run.id, cause, judgment.VERSION, judged, self._clock())
            view, cause = now, cause if not once else _end_of(now) or cause

    def _view(self, reader: Reader, run_id: str) -> RunView:
        view = view_run(reader, self._store.blobs, run_id)
        assert view is not None, "a run is never deleted"
        return view


def _basis(view: RunView) -> tuple[int, int, str | None]:
    """What a judgment depends on and what can have grown since it was made."""
    return len(view.updates), len(view.evidence), view.ended


def _end_of(view: RunView) -> str | None:
    """What ended the run: its final update, or the end of its last session without one."""
    if view.state.is_final:
        return f"final update {view.state.final_update}"
    if view.is_over:
        return f"end of session {view.sessions[-1].id} without a final update"
    return None


def _causes(view: RunView) -> set[str]:
    return {outcome.cause for outcome in view.outcomes}
