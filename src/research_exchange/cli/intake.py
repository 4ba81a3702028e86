"""What an Exchange would retain of a run's files: each is admitted or refused, in the order they came (R-160 to R-169).

Files inside updates count as well. A file whose bytes are lost stays in the list, so that the rules say so.
"""

from dataclasses import dataclass, replace
from hashlib import sha256

from research_exchange.documents.evidence import EvidenceFile, EvidenceLost
from research_exchange.documents.json import JsonValue
from research_exchange.documents.plain import plain
from research_exchange.documents.run_document import RunDocument
from research_exchange.documents.update import StoredUpdate
from research_exchange.evidence import Admission, AdmissionStatus, InlineFile, admit, inline_files

__all__ = ["Intake", "Refusal", "take_in"]


@dataclass(frozen=True)
class Refusal:
    """A file that is left out."""

    name: str
    admission: Admission

    def to_json(self) -> dict[str, JsonValue]:
        return {"name": self.name, "problems": plain(self.admission.problems)}


@dataclass(frozen=True)
class Intake:
    """The files of a run, sorted out."""

    retained: tuple[EvidenceFile, ...]
    refused: tuple[Refusal, ...]


def take_in(document: RunDocument) -> Intake:
    """Offers every file of a run to the rules of admission."""
    listed = [_Offer(file, None) for file in document.evidence]
    inline = [_inline(update, entry) for update in document.updates for entry in inline_files(update.body or {})]
    retained: list[EvidenceFile] = []
    refused: list[Refusal] = []
    for offer in sorted([*listed, *inline], key=lambda offer: offer.file.after):
        admission = _admission(offer, retained)
        if admission.status is AdmissionStatus.ACCEPTED:
            retained.append(replace(offer.file, kind=admission.kind))
        elif admission.status is AdmissionStatus.REJECTED:
            refused.append(Refusal(offer.file.name, admission))
    return Intake(tuple(retained), tuple(refused))


@dataclass(frozen=True)
class _Offer:
    file: EvidenceFile
    entry: InlineFile | None
    """As the update has it; None for a file that stands by itself."""


def _inline(update: StoredUpdate, entry: InlineFile) -> _Offer:
    content = entry.content or b""
    digest, after = sha256(content).hexdigest(), update.sequence - 1
    file = EvidenceFile(entry.name, entry.kind, digest, len(content), update.sequence, lambda: content, after)
    return _Offer(file, entry)


def _admission(offer: _Offer, retained: list[EvidenceFile]) -> Admission:
    file, entry = offer.file, offer.entry
    if entry is not None and entry.content is None:
        return Admission(AdmissionStatus.REJECTED, file.kind, "", entry.problems)
    try:
        content = file.read()
    except EvidenceLost:
        return Admission(AdmissionStatus.ACCEPTED, file.kind, file.sha256)
    declared = None if entry is None else entry.declared_sha256
    return admit(file.name, file.kind, content, declared_sha256=declared, existing=retained)
