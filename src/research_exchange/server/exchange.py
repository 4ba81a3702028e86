"""What the Exchange does when it is told something: stored before it is answered, and judged when a run ends.

Everything a rule decides is decided by the rules; this module feeds them what the store holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.documents.gates import Flag
from research_exchange.documents.update import StoredUpdate
from research_exchange.server.errors import ApiError, unknown_run
from research_exchange.server.folding import Folds
from research_exchange.server.ideas import Ideas
from research_exchange.server.intake import FileAnswer, Intake
from research_exchange.server.judging import Judging
from research_exchange.server.launching import Launching
from research_exchange.server.queueing import Queueing
from research_exchange.server.recording import Recording
from research_exchange.server.sitting import Sitting
from research_exchange.server.tokens import Tokens
from research_exchange.server.versions import SpecVersions
from research_exchange.server.views import RunView, view_run
from research_exchange.store import (
    Cancellation,
    Clock,
    EvidenceRecord,
    Identifiers,
    OutcomeRecord,
    Reader,
    Store,
    Writer,
)


@dataclass(frozen=True)
class PostedUpdate:
    stored: StoredUpdate
    is_new: bool
    """False for a retry: the bytes equal the run's last update, which is not stored again."""
    flags: Sequence[Flag]
    """What the fold remarks about this update."""
    files: Sequence[FileAnswer]
    """One for each file that the update carries."""


@dataclass(frozen=True)
class RetainedFile:
    record: EvidenceRecord
    content: bytes


class Exchange:
    """The services behind the API and the pages. Each raises `ApiError` for what it cannot do."""

    def __init__(self, store: Store, clock: Clock, ids: Identifiers) -> None:
        self.store = store
        self.clock = clock
        self._ids = ids
        self._folds = Folds()
        self.ideas = Ideas(store, clock, ids)
        self.versions = SpecVersions(store, clock, ids)
        self.tokens = Tokens(store, clock, ids)
        self.judging = Judging(store, clock)
        self.recording = Recording(store, clock, self._folds, self.judging)
        self.runs = Launching(store, clock, ids)
        self.queue = Queueing(store, clock, ids, self._folds)
        self.sessions = Sitting(store, clock, ids, self._folds, self.recording)

    def view(self, run_id: str) -> RunView:
        """Everything about a run, at one moment."""
        with self.store.reading() as reader:
            return self.view_of(reader, run_id)

    def view_of(self, reader: Reader, run_id: str) -> RunView:
        """Everything about a run, at the moment that a transaction sees."""
        view = view_run(reader, self.store, self._folds, run_id)
        if view is None:
            raise unknown_run(run_id)
        return view

    def cancel(self, run_id: str, by: str, reason: str) -> Cancellation:
        """Call a run off, and put on record what there is of it."""
        cancellation = self.queue.cancel(run_id, by, reason)
        self.recording.settle(run_id)
        return cancellation

    def update(self, run_id: str, sequence: int) -> StoredUpdate:
        with self.store.reading() as reader:
            update = reader.update(run_id, sequence)
        if update is None:
            raise ApiError(404, f"Run {run_id!r} has no update {sequence}.")
        return update

    def post_update(self, run_id: str, raw: bytes) -> PostedUpdate:
        """Store an update and the files it carries, and record the outcome when it is the run's final one.

        Bytes equal to the run's last update are a retry: they have its number and change nothing.
        """
        with self.store.writing() as writer:
            last = writer.last_update(run_id)
            if last is not None and last.raw == raw:
                stored, is_new = last, False
            else:
                stored, is_new = writer.append_update(run_id, raw, _open_session(writer, run_id), self.clock()), True
            intake = self._intake(writer, run_id)
            files = intake.offer_inline(stored)
            if is_new:
                intake.keep_refusals(files, stored.sequence)
        with self.store.reading() as reader:
            run = reader.run(run_id)
            assert run is not None, "an update of it is on record"
            remarks = self._folds.remarks(reader, run, stored)
        if remarks.is_final:
            self.recording.settle(run_id)
        return PostedUpdate(stored, is_new, remarks.flags, files)

    def add_evidence(self, run_id: str, name: str, kind: str, content: bytes, declared: str | None) -> FileAnswer:
        """Retain a file that was uploaded by itself, if the rules admit it (R-160 to R-169)."""
        with self.store.writing() as writer:
            intake = self._intake(writer, run_id)
            answer = intake.offer(name, kind, content, declared, update=None)
            intake.keep_refusals([answer], update=None)
        return answer

    def read_evidence(self, run_id: str, name: str) -> RetainedFile:
        with self.store.reading() as reader:
            record = next((file for file in reader.evidence(run_id) if file.name == name), None)
        if record is None:
            raise ApiError(404, f"Run {run_id!r} retains no file named {name!r}.")
        try:
            return RetainedFile(record, self.store.blobs.read(record.sha256))
        except EvidenceLost as lost:
            raise ApiError(
                410, f"The file {name!r} was accepted, but is no longer what it was: found {lost}."
            ) from None

    def record_judgment(self, run_id: str, by: str) -> OutcomeRecord:
        """Put what the rules say of a run now on record, after what stands there."""
        return self.recording.record(self.view(run_id), by)

    def _intake(self, writer: Writer, run_id: str) -> Intake:
        return Intake(writer, self.store.blobs, self.clock, run_id)


def _open_session(writer: Writer, run_id: str) -> str | None:
    """The session that an update belongs to: the newest one that has not ended."""
    return next((session.id for session in reversed(writer.sessions(run_id)) if session.end is None), None)
