"""What the Exchange does when it is told something: stored before it is answered, and judged when a run ends.

Everything a rule decides is decided by the rules; this module feeds them what the store holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.documents.gates import Flag
from research_exchange.documents.json import DocumentError
from research_exchange.documents.spec import Spec
from research_exchange.documents.update import StoredUpdate
from research_exchange.server.errors import ApiError
from research_exchange.server.intake import FileAnswer, Intake
from research_exchange.server.recording import Recording
from research_exchange.server.views import RunView, view_run
from research_exchange.store import (
    Clock,
    EvidenceRecord,
    Identifiers,
    LaunchMode,
    OutcomeRecord,
    SessionEnd,
    SpecRecord,
    Store,
    Writer,
)


@dataclass(frozen=True)
class RegisteredSpec:
    spec: SpecRecord
    is_new: bool
    """False when the same bytes had been registered before."""


@dataclass(frozen=True)
class CreatedRun:
    id: str
    spec_id: str
    token: str
    """The runner's secret; this is the only time that anybody sees it."""


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
        self.recording = Recording(store, clock)
        self.clock = clock
        self._ids = ids

    def register_spec(self, raw: bytes) -> RegisteredSpec:
        """Save a spec as an immutable version; the same bytes are the same version (R-002)."""
        try:
            spec = Spec.parse(raw)
        except DocumentError as error:
            raise ApiError(422, f"The spec cannot be read: {error}") from None
        with self.store.writing() as writer:
            known = writer.spec_with_digest(spec.sha256)
            if known is not None:
                return RegisteredSpec(known, is_new=False)
            record = SpecRecord(self._ids.spec(), spec.sha256, spec.title, self.clock(), raw)
            writer.add_spec(record)
            return RegisteredSpec(record, is_new=True)

    def spec(self, spec_id: str) -> SpecRecord:
        with self.store.reading() as reader:
            spec = reader.spec(spec_id)
        if spec is None:
            raise unknown_spec(spec_id)
        return spec

    def create_run(self, spec_id: str, launch_mode: LaunchMode) -> CreatedRun:
        with self.store.writing() as writer:
            if writer.spec(spec_id) is None:
                raise unknown_spec(spec_id)
            created = CreatedRun(self._ids.run(), spec_id, self._ids.runner_token())
            writer.add_run(created.id, spec_id, launch_mode, created.token, self.clock())
            return created

    def view(self, run_id: str) -> RunView:
        """Everything about a run, at one moment."""
        with self.store.reading() as reader:
            view = view_run(reader, self.store.blobs, run_id)
        if view is None:
            raise unknown_run(run_id)
        return view

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
        view = self.view(run_id)
        self.recording.settle(view)
        flags = [flag for flag in view.state.flags if flag.update == stored.sequence]
        return PostedUpdate(stored, is_new, flags, files)

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

    def start_session(self, run_id: str) -> str:
        session_id = self._ids.session()
        with self.store.writing() as writer:
            writer.add_session(run_id, session_id, self.clock())
        return session_id

    def end_session(self, run_id: str, session_id: str, exit_code: int | None, reason: str) -> None:
        """End a session once. When it was the last and no final update came, what is finished is partial (R-067)."""
        with self.store.writing() as writer:
            session = next((each for each in writer.sessions(run_id) if each.id == session_id), None)
            if session is None:
                raise ApiError(404, f"Run {run_id} has no session {session_id!r}.")
            if session.end is None:
                writer.end_session(session_id, SessionEnd(self.clock(), exit_code, reason))
        self.recording.settle(self.view(run_id))

    def record_judgment(self, run_id: str) -> OutcomeRecord:
        """Judge a run anew and put the result on record, after those that stand there."""
        return self.recording.record(self.view(run_id))

    def _intake(self, writer: Writer, run_id: str) -> Intake:
        return Intake(writer, self.store.blobs, self.clock, run_id)


def unknown_spec(spec_id: str) -> ApiError:
    return ApiError(404, f"No spec {spec_id!r} is registered here; POST its bytes to /api/specs first.")


def unknown_run(run_id: str) -> ApiError:
    return ApiError(404, f"No run {run_id!r} is known here; GET /api/runs lists those that are.")


def _open_session(writer: Writer, run_id: str) -> str | None:
    """The session that an update belongs to: the newest one that has not ended."""
    return next((session.id for session in reversed(writer.sessions(run_id)) if session.end is None), None)
