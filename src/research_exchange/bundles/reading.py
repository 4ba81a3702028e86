"""Reads a bundle, packed or unpacked: its record, and the documents that a judgment is a function of."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from research_exchange.bundles.archive import Archive
from research_exchange.bundles.members import Contents, Folder, Members, NotABundle, read_text
from research_exchange.bundles.record import RECORD, SPEC, VERSION, EvidenceEntry, RunRecord
from research_exchange.bundles.text import decode
from research_exchange.documents.evidence import EvidenceFile, EvidenceLost
from research_exchange.documents.json import DocumentError
from research_exchange.documents.run_document import RunDocument
from research_exchange.documents.spec import Spec
from research_exchange.documents.update import StoredUpdate

__all__ = ["contents_of", "documents_of", "open_members", "read_record"]


@contextmanager
def open_members(path: Path) -> Iterator[Members]:
    """The members of a bundle, in a zip file or unpacked in a folder.

    Raises:
        NotABundle: if the path has no bundle.
        OSError: if it cannot be read.
    """
    if not path.is_dir() and not path.is_file():
        found = "something that is neither a file nor a folder" if path.exists() else "nothing"
        raise NotABundle(f"{path} is not a bundle: there is {found}.")
    if path.is_dir():
        if not (path / RECORD).is_file():
            raise NotABundle(f"{path} is not a bundle: it has no {RECORD}.")
        yield Folder(path)
        return
    with Archive(path) as archive:
        yield archive


def contents_of(members: Members) -> Contents:
    """What reads each member."""
    return {name: partial(members.read, name) for name in members.members}


def read_record(members: Members) -> RunRecord:
    """The record of the run.

    Raises:
        DocumentError: if `run.json` is not the record of a run; the sentence says what and where.
    """
    record = decode(RunRecord, read_text(members, RECORD))
    if record.version != VERSION:
        raise DocumentError(f"version is {VERSION}; found {record.version}, which another Exchange has to read.")
    return record


def documents_of(record: RunRecord, contents: Contents) -> RunDocument:
    """What `judgment.judge` takes, as it was when the run was exported; evidence is read and hashed when it is used.

    Raises:
        DocumentError: if the spec or an update is missing or cannot be read.
    """
    missing = next((name for name in (SPEC, *(each.member for each in record.updates)) if name not in contents), None)
    if missing is not None:
        raise DocumentError(f"{missing} is missing.")
    lost = {loss.member: loss.found for loss in record.lost}
    return RunDocument(
        spec=Spec.parse(contents[SPEC]()),
        updates=tuple(
            StoredUpdate(each.sequence, each.received_at, contents[each.member](), each.session)
            for each in record.updates
        ),
        evidence=tuple(_file(each, contents, lost.get(each.member)) for each in record.evidence),
        ended=record.run.ended,
    )


def _file(entry: EvidenceEntry, contents: Contents, lost: str | None) -> EvidenceFile:
    def content() -> bytes:
        if lost is not None or entry.member not in contents:
            raise EvidenceLost(lost or f"no {entry.member} in the bundle")
        return contents[entry.member]()

    return EvidenceFile(
        name=entry.name,
        kind=entry.kind,
        sha256=entry.sha256,
        size=entry.size,
        update=entry.update,
        content=content,
        after=entry.after,
    )
