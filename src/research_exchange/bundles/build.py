"""Writes a run as a bundle. The same record and bytes give the same bundle, byte for byte, on every machine."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from platform import python_version
from typing import BinaryIO

from research_exchange.bundles.archive import archive_chunks
from research_exchange.bundles.crate import CRATE, crate_text
from research_exchange.bundles.members import MOST_BYTES, MOST_MEMBERS, Contents, Member
from research_exchange.bundles.record import RECORD, Loss, RunRecord, Software
from research_exchange.bundles.text import record_text, text_of
from research_exchange.documents.evidence import EvidenceLost
from research_exchange.documents.json import JsonValue

__all__ = ["MANIFEST", "BundleTooLarge", "build", "bundle_chunks", "bundle_members", "installed", "manifest_text"]

MANIFEST = "manifest.json"
_ROOM_FOR_LISTS = 256 * 1024**2
"""For what a bundle says of its members, however many they are."""


class BundleTooLarge(Exception):
    """A run that no bundle can hold; the text is one sentence for a person."""


def build(record: RunRecord, contents: Contents, file: BinaryIO) -> None:
    """Writes a bundle to a file object, which need not be seekable; see `bundle_chunks`."""
    for chunk in bundle_chunks(record, contents):
        file.write(chunk)


def bundle_chunks(record: RunRecord, contents: Contents) -> Iterator[bytes]:
    """The bytes of a bundle, piece by piece. No more than one member is held at a time.

    Args:
        record: What is on record of the run.
        contents: For each member that the record names, what reads its bytes. Where this raises `EvidenceLost` the
            member is left out, and the bundle says what was found in its place.

    Raises:
        BundleTooLarge: before the first piece, if it would be larger than a bundle may be.
    """
    size = sum(each.size for each in record.posted)
    count = len(record.hashes())
    if size > MOST_BYTES - _ROOM_FOR_LISTS or count > MOST_MEMBERS:
        raise BundleTooLarge(
            f"{record.run.id} has {count:,} documents and files with {size:,} bytes; a bundle holds {MOST_MEMBERS:,} "
            f"with {MOST_BYTES - _ROOM_FOR_LISTS:,} at most."
        )
    return archive_chunks(bundle_members(record, contents))


def bundle_members(record: RunRecord, contents: Contents) -> Iterator[tuple[str, bytes]]:
    """Every member of a bundle with its bytes, in order; what speaks of the others comes last."""
    written: dict[str, Member] = {}

    def written_as(name: str, content: bytes) -> tuple[str, bytes]:
        written[name] = Member(len(content), sha256(content).hexdigest())
        return name, content

    lost: list[Loss] = []
    for name in record.hashes():
        try:
            content = contents[name]()
        except EvidenceLost as found:
            lost.append(Loss(name, str(found)))
        else:
            yield written_as(name, content)
    record = replace(record, lost=(*record.lost, *lost))
    yield written_as(RECORD, record_text(record))
    yield written_as(CRATE, crate_text(record, written))
    yield MANIFEST, manifest_text(written)


def manifest_text(members: Mapping[str, Member]) -> bytes:
    """The list of all other members with sizes and hashes."""
    listed: dict[str, JsonValue] = {
        name: {"size": member.size, "sha256": member.sha256} for name, member in sorted(members.items())
    }
    return text_of({"version": 1, "members": listed})


def installed() -> tuple[Software, ...]:
    """What this Exchange runs on, for `RunRecord.software`."""
    return (
        Software("research-exchange", version("research-exchange")),
        Software("Python", python_version()),
    )
