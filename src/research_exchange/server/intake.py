"""Taking in files for one run inside one transaction: each is admitted or refused by itself (R-160 to R-169)."""

from dataclasses import dataclass

from research_exchange.documents.update import StoredUpdate
from research_exchange.evidence import Admission, AdmissionStatus, admit, inline_files
from research_exchange.server.views import evidence_file
from research_exchange.store import BlobStore, Clock, EvidenceRecord, Writer

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


class Intake:
    """The files of one run, open for more."""

    def __init__(self, writer: Writer, blobs: BlobStore, clock: Clock, run_id: str) -> None:
        self._writer = writer
        self._blobs = blobs
        self._clock = clock
        self._run_id = run_id
        self._updates = writer.count_updates(run_id)
        self._retained = [evidence_file(record, blobs) for record in writer.evidence(run_id)]

    def offer_inline(self, update: StoredUpdate) -> list[FileAnswer]:
        """Every file that an update carries, in order."""
        answers = []
        for file in inline_files(update.body or {}):
            if file.content is None:
                refused = Admission(AdmissionStatus.REJECTED, file.kind, "", file.problems)
                answers.append(FileAnswer(file.name, refused))
            else:
                answers.append(self.offer(file.name, file.kind, file.content, file.declared_sha256, update.sequence))
        return answers

    def offer(self, name: str, kind: str, content: bytes, declared: str | None, update: int | None) -> FileAnswer:
        """One file; when it is accepted, its bytes are on the disk before this returns."""
        admission = admit(name, kind, content, declared_sha256=declared, existing=self._retained)
        if admission.status is AdmissionStatus.ACCEPTED:
            digest = self._blobs.put(content)
            after = self._updates if update is None else 0
            record = EvidenceRecord(name, admission.kind, digest, len(content), update, self._clock(), after)
            self._writer.add_evidence(self._run_id, record)
            self._retained.append(evidence_file(record, self._blobs))
        return FileAnswer(name, admission)

    def keep_refusals(self, answers: list[FileAnswer], update: int | None) -> None:
        """Remember why files were refused, so that a reader of the run learns of it too."""
        room = max(0, MAX_KEPT_REFUSALS - self._writer.count_refusals(self._run_id))
        for answer in [answer for answer in answers if answer.is_refused][:room]:
            problems = [str(problem) for problem in answer.admission.problems]
            self._writer.add_refusal(self._run_id, answer.name[:MAX_KEPT_NAME], problems, update, self._clock())
