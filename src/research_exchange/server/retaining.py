"""Evidence: a file that is uploaded by itself, and handing it out again (R-160 to R-169, R-16C)."""

from dataclasses import dataclass

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.documents.json import JsonValue
from research_exchange.evidence import inline_file
from research_exchange.server.attachments import Attachments
from research_exchange.server.errors import ApiError
from research_exchange.server.intake import FileAnswer, Held, Intake, Prepared, held_by, prepare_entry, prepare_incoming
from research_exchange.store import BlobStore, Clock, EvidenceRecord, Incoming, Store


@dataclass(frozen=True)
class RetainedFile:
    record: EvidenceRecord
    content: bytes


class Retaining:
    """The evidence of all runs. Each method looks at a file before it takes the write lock."""

    def __init__(self, store: Store, clock: Clock, attachments: Attachments) -> None:
        self._store = store
        self._clock = clock
        self._attachments = attachments

    @property
    def blobs(self) -> BlobStore:
        return self._store.blobs

    def retain(self, run_id: str, name: str, kind: str, incoming: Incoming, declared: str | None) -> FileAnswer:
        """Retain a file that was uploaded by itself, if the rules admit it."""
        return self._take(run_id, prepare_incoming(incoming, self._held(run_id), name, kind, declared))

    def retain_entry(self, run_id: str, entry: JsonValue) -> FileAnswer:
        """Retain a file that came as JSON, `{name, kind, content | source_url, sha256?}`."""
        file = inline_file(entry, "file")
        if file.source_url is not None:
            return self._take(run_id, self._attachments.fetch(run_id, file))
        return self._take(run_id, prepare_entry(self._store.blobs, self._held(run_id), file))

    def read(self, run_id: str, name: str) -> RetainedFile:
        with self._store.reading() as reader:
            record = reader.evidence_named(run_id, name)
        if record is None:
            raise ApiError(404, f"Run {run_id!r} retains no file named {name!r}.")
        try:
            return RetainedFile(record, self._store.blobs.read(record.sha256))
        except EvidenceLost as lost:
            raise ApiError(
                410, f"The file {name!r} was accepted, but is no longer what it was: found {lost}."
            ) from None

    def _held(self, run_id: str) -> Held:
        with self._store.reading() as reader:
            return held_by(reader, self._store.blobs, run_id)

    def _take(self, run_id: str, file: Prepared) -> FileAnswer:
        with self._store.writing() as writer:
            intake = Intake(writer, self._store.blobs, self._clock, run_id)
            answers = intake.take([file], update=None)
            intake.keep_refusals(answers, update=None)
        return answers[0]
