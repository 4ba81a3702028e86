"""Sessions: a runner sits down at a run with its brief, says that it is alive, and gets up (R-004, R-051, R-067)."""

from dataclasses import dataclass
from hashlib import sha256

from research_exchange.capacity import first_reading
from research_exchange.documents.evidence import EvidenceLost
from research_exchange.server.briefing import DEFAULT_PROFILE, brief
from research_exchange.server.errors import ApiError, unknown_run
from research_exchange.server.folding import Folds
from research_exchange.server.queueing import MAY_GO_ON, close_entry
from research_exchange.server.recording import Recording
from research_exchange.store import (
    Clock,
    Identifiers,
    Reader,
    RunnerKind,
    RunPhase,
    RunRecord,
    SessionEnd,
    SessionRecord,
    Store,
)

MAX_SESSIONS = 1_000
"""Of a run: each may have a brief and an outcome, and whoever reads the run reads them all."""


@dataclass(frozen=True)
class Begun:
    """A session that has begun."""

    session: str
    brief_sha256: str
    """Of the brief that was rendered for it, which the store keeps."""


@dataclass(frozen=True)
class Brief:
    text: bytes
    """Markdown in UTF-8."""
    sha256: str


@dataclass(frozen=True)
class Beat:
    """What a runner is told when it says that it is alive."""

    cancelled: bool
    reason: str | None
    """Why somebody called the run off."""
    ended: str | None
    """Why the Exchange has taken the session for ended; None while it goes on."""


class Sitting:
    """The sessions of all runs."""

    def __init__(self, store: Store, clock: Clock, ids: Identifiers, folds: Folds, recording: Recording) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._folds = folds
        self._recording = recording

    def begin(self, run_id: str, runner: RunnerKind, profile: str | None) -> Begun:
        """Begin a session; a run that waits in the queue leaves it.

        Raises:
            ApiError: 409 for a run that was cancelled or has ended for good, or that has as many sessions as one may
                have; 422 for an unknown service profile.
        """
        with self._store.reading() as reader:
            run = _known(reader, run_id)
            _require_room(reader, run_id)
            text = brief(reader, run, profile or DEFAULT_PROFILE)
        digest = self._store.blobs.put(text)
        session_id = self._ids.session()
        with self._store.writing() as writer:
            if refused := self._why_not(writer, _known(writer, run_id)):
                raise ApiError(409, refused)
            _require_room(writer, run_id)
            at = self._clock()
            close_entry(writer, run_id, at, session_id)
            writer.add_session(run_id, session_id, at, runner, digest)
        return Begun(session_id, digest)

    def beat(self, run_id: str, session_id: str) -> Beat:
        """Remember that a runner is alive, and tell it whether it shall stop."""
        with self._store.writing() as writer:
            session = _session(writer, run_id, session_id)
            if session.end is None:
                writer.beat(session_id, self._clock())
            cancellation = writer.cancellation(run_id)
        return Beat(
            cancelled=cancellation is not None,
            reason=None if cancellation is None else cancellation.reason,
            ended=None if session.end is None else session.end.reason,
        )

    def end(self, run_id: str, session_id: str, exit_code: int | None, reason: str) -> None:
        """End a session once. When it was the last and no final update came, what is finished is partial (R-067)."""
        with self._store.writing() as writer:
            if _session(writer, run_id, session_id).end is None:
                writer.end_session(session_id, SessionEnd(self._clock(), exit_code, reason))
        self._recording.settle(run_id)

    def brief(self, run_id: str, profile: str | None) -> Brief:
        """The brief of the newest session as it was rendered then; for a named profile, as it would be now.

        Raises:
            ApiError: 410 where the kept bytes are not what they were, 422 for an unknown service profile.
        """
        with self._store.reading() as reader:
            run = _known(reader, run_id)
            told = [each.brief_sha256 for each in reader.sessions(run_id) if each.brief_sha256 is not None]
            if profile is not None or not told:
                text = brief(reader, run, profile or DEFAULT_PROFILE)
                return Brief(text, sha256(text).hexdigest())
        try:
            return Brief(self._store.blobs.read(told[-1]), told[-1])
        except EvidenceLost as lost:
            raise ApiError(410, f"The brief of {run_id} is no longer what it was: found {lost}.") from None

    def _why_not(self, reader: Reader, run: RunRecord) -> str | None:
        """Why nobody may sit down at a run any more."""
        if run.phase is RunPhase.CANCELLED:
            return f"Run {run.id} was cancelled; start a redo instead."
        state = self._folds.fold(reader, run).state
        if not state.is_final:
            return None
        if first_reading(state)[0] not in MAY_GO_ON:
            return f"Run {run.id} ended with its final update {state.final_update}; start a redo instead."
        if run.phase is RunPhase.QUEUED:
            return None
        sessions, entries = reader.sessions(run.id), reader.queue_entries(run.id)
        if not entries or (sessions and entries[-1].queued_at < sessions[-1].started_at):
            return f"Run {run.id} stopped for want of capacity and was not queued again; queue it first."
        return None


def _known(reader: Reader, run_id: str) -> RunRecord:
    run = reader.run(run_id)
    if run is None:
        raise unknown_run(run_id)
    return run


def _require_room(reader: Reader, run_id: str) -> None:
    """One runner must not fill the disk of all: what no honest run comes near is refused."""
    if reader.count_sessions(run_id) >= MAX_SESSIONS:
        raise ApiError(
            409, f"R-240: {run_id} has {MAX_SESSIONS:,} sessions, as many as a run may have; start a redo instead."
        )


def _session(reader: Reader, run_id: str, session_id: str) -> SessionRecord:
    session = reader.session(session_id)
    if session is None or session.run_id != run_id:
        raise ApiError(404, f"Run {run_id} has no session {session_id!r}.")
    return session
