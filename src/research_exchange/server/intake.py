"""Taking in files for one run: each is looked at first and then admitted or refused by itself (R-160 to R-169).

Hashing, scanning and writing a file take time, and are done before anybody holds the write lock. What the run holds by
then decides beforehand too: no file goes away again, so one that is refused beside these is refused for good and is not
written. Under the lock it is decided once more; bytes that are refused only then are named by nothing.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from research_exchange.credentials import redact_text
from research_exchange.documents.evidence import EvidenceFile
from research_exchange.evidence import (
    Admission,
    AdmissionStatus,
    InlineFile,
    Offer,
    admit_offer,
    credential_problems,
    offer,
)
from research_exchange.server.views import evidence_file
from research_exchange.store import BlobStore, Clock, EvidenceRecord, Incoming, Reader, Writer

MAX_KEPT_REFUSALS = 256
"""Of a run. Further ones are answered all the same; the list is there for a reader, not for an attacker to fill."""
MAX_KEPT_NAME = 200
"""Characters of a refused file's name."""


@dataclass(frozen=True)
class FileAnswer:
    """What became of one file that was offered."""

    name: str
    admission: Admission

    @property
    def is_refused(self) -> bool:
        return self.admission.status is AdmissionStatus.REJECTED


@dataclass(frozen=True)
class Prepared:
    """A file that was looked at by itself; unless it is refused for good, its bytes are durable."""

    offer: Offer
    refused: Admission | None


Held = Sequence[EvidenceFile]
"""What a run retains by the time that one of its files is looked at."""


def held_by(reader: Reader, blobs: BlobStore, run_id: str) -> list[EvidenceFile]:
    """What a run retains."""
    return [evidence_file(record, blobs) for record in reader.evidence(run_id)]


def prepare(blobs: BlobStore, held: Held, name: str, kind: str, content: bytes, declared: str | None) -> Prepared:
    """Look at a file whose bytes are in memory."""
    prepared = _examined(offer(name, kind, content, declared_sha256=declared), held)
    if prepared.refused is None:
        blobs.put(content)
    return prepared


def prepare_incoming(incoming: Incoming, held: Held, name: str, kind: str, declared: str | None) -> Prepared:
    """Look at a file whose bytes were written as they came; they are hashed and the disk takes them in meanwhile."""
    content = incoming.content()
    with ThreadPoolExecutor(2) as beside:
        synced, hashed = beside.submit(incoming.sync), beside.submit(lambda: incoming.sha256)
        credentials = credential_problems(name, content)
        synced.result()
        found = Offer(name, kind, hashed.result(), len(content), declared, credentials)
    prepared = _examined(found, held)
    if prepared.refused is None:
        incoming.keep()
    return prepared


def prepare_entry(blobs: BlobStore, held: Held, entry: InlineFile) -> Prepared:
    """Look at a file that stands in a JSON document."""
    if entry.content is None:
        return refused_entry(entry)
    return prepare(blobs, held, entry.name, entry.kind, entry.content, entry.declared_sha256)


def refused_entry(entry: InlineFile) -> Prepared:
    """An entry without content, for the reasons that it has."""
    nothing = Offer(entry.name, entry.kind, "", 0, entry.declared_sha256, ())
    return Prepared(nothing, Admission(AdmissionStatus.REJECTED, entry.kind, "", entry.problems))


def _examined(file: Offer, held: Held) -> Prepared:
    """What is refused already is never written."""
    by_now = admit_offer(file, held)
    return Prepared(file, by_now if by_now.status is AdmissionStatus.REJECTED else None)


class Intake:
    """The files of one run, open for more inside one transaction."""

    def __init__(self, writer: Writer, blobs: BlobStore, clock: Clock, run_id: str) -> None:
        self._writer = writer
        self._clock = clock
        self._run_id = run_id
        self._blobs = blobs
        self._updates = writer.count_updates(run_id)
        self._retained = held_by(writer, blobs, run_id)

    def take(self, files: Iterable[Prepared], update: int | None) -> list[FileAnswer]:
        """Admit or refuse each file; `update` is the number of the update that carried them, if one did."""
        return [self._take(file, update) for file in files]

    def keep_refusals(self, answers: Sequence[FileAnswer], update: int | None) -> None:
        """Remember why files were refused, so that a reader of the run learns of it too."""
        for answer in answers:
            if answer.is_refused:
                self.remark(answer.name, [str(problem) for problem in answer.admission.problems], update)

    def remark(self, name: str, problems: Sequence[str], update: int | None) -> None:
        """Remember why something was not kept as it came, without a credential that stood in its name (R-243)."""
        if self._writer.count_refusals(self._run_id) < MAX_KEPT_REFUSALS:
            kept = redact_text(name)[:MAX_KEPT_NAME]
            self._writer.add_refusal(self._run_id, kept, [*map(redact_text, problems)], update, self._clock())

    def _take(self, file: Prepared, update: int | None) -> FileAnswer:
        offered = file.offer
        admission = file.refused or admit_offer(offered, self._retained)
        if admission.status is AdmissionStatus.ACCEPTED:
            after = self._updates if update is None else 0
            record = EvidenceRecord(
                offered.name, admission.kind, offered.sha256, offered.size, update, self._clock(), after
            )
            self._writer.add_evidence(self._run_id, record)
            self._retained.append(evidence_file(record, self._blobs))
        return FileAnswer(offered.name, admission)
