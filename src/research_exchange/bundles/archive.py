"""The one form that a bundle has as an archive: a zip file in which every byte follows from its members.

Members are stored as they are, one after another, without compression, dates, comments or gaps. So the same members are
the same file on every machine, nothing can hide between them, and nothing can grow when it is read. Any program that
knows zip files unpacks it; the reader here takes no other zip file, because that would leave bytes to tamper with.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from zlib import crc32

from research_exchange.bundles.members import MOST_BYTES, MOST_MEMBERS, Member, NotABundle, broken
from research_exchange.documents.gates import Problem

__all__ = ["Archive", "archive_chunks"]

_LOCAL = struct.Struct("<4s5H3I2H")
_LISTED = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_VERSION, _UTF8, _STORED, _MIDNIGHT, _FIRST_DAY = 20, 0x800, 0, 0, 0x21
"""Zip 2.0; names in UTF-8; no compression; 1980-01-01 00:00, the first moment that a zip file knows."""
_UNIX, _PLAIN_FILE = 3 << 8, 0o100644 << 16
_CHUNK = 1024 * 1024


@dataclass(frozen=True)
class _Entry:
    """What a zip file says of a member."""

    name: bytes
    crc: int
    size: int
    offset: int
    """Of its header, from the start of the file."""

    def header(self) -> bytes:
        """What stands before its bytes."""
        common = (_VERSION, _UTF8, _STORED, _MIDNIGHT, _FIRST_DAY, self.crc, self.size, self.size, len(self.name), 0)
        return _LOCAL.pack(b"PK\x03\x04", *common) + self.name

    def listing(self) -> bytes:
        """What stands in the list of members at the end."""
        common = (_VERSION, _UTF8, _STORED, _MIDNIGHT, _FIRST_DAY, self.crc, self.size, self.size, len(self.name))
        no_extra_comment_disk_text = (0, 0, 0, 0)
        return (
            _LISTED.pack(
                b"PK\x01\x02", _UNIX | _VERSION, *common, *no_extra_comment_disk_text, _PLAIN_FILE, self.offset
            )
            + self.name
        )

    @property
    def content_at(self) -> int:
        return self.offset + _LOCAL.size + len(self.name)


def archive_chunks(members: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """The bytes of a zip file, piece by piece; no more than one member is held at a time."""
    entries, offset = [], 0
    for name, content in members:
        entry = _Entry(name.encode(), crc32(content), len(content), offset)
        entries.append(entry)
        offset = entry.content_at + entry.size
        yield entry.header()
        yield content
    yield _end_of(entries, offset)


def _end_of(entries: list[_Entry], offset: int) -> bytes:
    listing = b"".join(entry.listing() for entry in entries)
    return listing + _END.pack(b"PK\x05\x06", 0, 0, len(entries), len(entries), len(listing), offset, 0)


class Archive:
    """The members of a zip file that `archive_chunks` wrote. Use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Reads the file once, from its first byte to its last.

        Raises:
            NotABundle: if it is no zip file at all, or larger than any bundle.
            OSError: if it cannot be read.
        """
        self.members: dict[str, Member] = {}
        self.problems: list[Problem] = []
        self._content_at: dict[str, int] = {}
        self._file = path.open("rb")
        try:
            self._scan(path)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, name: str) -> bytes:
        """The bytes of a member. Raises `KeyError` for a name that is none."""
        self._file.seek(self._content_at[name])
        return self._file.read(self.members[name].size)

    def _scan(self, path: Path) -> None:
        size = self._file.seek(0, 2)
        self._file.seek(0)
        if size > MOST_BYTES:
            raise NotABundle(f"{path} has {size:,} bytes; a bundle has {MOST_BYTES:,} at most.")
        entries: list[_Entry] = []
        while (head := self._file.read(4)) == b"PK\x03\x04":
            entry = self._next(head, entries[-1].name if entries else None)
            if entry is None:
                return
            entries.append(entry)
        if not entries:
            raise NotABundle(f"{path} is not a bundle: it does not start as a zip file that `rx export` writes.")
        offset = self._file.tell() - len(head)
        expected = _end_of(entries, offset)
        self._file.seek(offset)
        found = self._file.read(len(expected) + 1)
        if found != expected:
            self._not_as_written(offset + _first_difference(expected, found), "the list of members at its end")

    def _next(self, head: bytes, before: bytes | None) -> _Entry | None:
        """The member that starts here; None, with a problem, where it leaves the form."""
        offset = self._file.tell() - len(head)
        head += self._file.read(_LOCAL.size - len(head))
        if len(head) < _LOCAL.size:
            self._not_as_written(offset, _after(before))
            return None
        *_, crc, size, _size, name_length, _extra = _LOCAL.unpack(head)
        entry = _Entry(self._file.read(name_length), crc, size, offset)
        found, expected = head + entry.name, entry.header()
        if found != expected:
            self._not_as_written(offset + _first_difference(expected, found), _after(before))
            return None
        return entry if self._take(entry) else None

    def _take(self, entry: _Entry) -> bool:
        """Keeps a member; false, with a problem, where nothing after it can be told apart."""
        name = entry.name.decode("utf-8", "replace")
        hashed, crc, left = sha256(), 0, entry.size
        while left and (chunk := self._file.read(min(left, _CHUNK))):
            hashed.update(chunk)
            crc, left = crc32(chunk, crc), left - len(chunk)
        if left:
            self.problems.append(broken(name, f"{entry.size:,} bytes", f"{entry.size - left:,} before the file ends"))
            return False
        if crc != entry.crc:
            self.problems.append(
                broken(name, f"bytes with the checksum {entry.crc:08x}", f"others, with the checksum {crc:08x}")
            )
        if name in self.members or len(self.members) == MOST_MEMBERS:
            expected = "each member once" if name in self.members else f"at most {MOST_MEMBERS:,} members"
            self.problems.append(broken(name, expected, "more"))
            return False
        self.members[name] = Member(entry.size, hashed.hexdigest())
        self._content_at[name] = entry.content_at
        return True

    def _not_as_written(self, offset: int, place: str) -> None:
        action = "Export the run again; or, where another program packed it anew, unpack it and verify the folder."
        expected = "the bytes that `rx export` writes there"
        self.problems.append(Problem("R-16C", f"byte {offset} of the archive", expected, f"others, in {place}", action))


def _after(name: bytes | None) -> str:
    if name is None:
        return "the header of the first member"
    return f"what follows {name.decode('utf-8', 'replace')}"


def _first_difference(expected: bytes, found: bytes) -> int:
    pairs = enumerate(zip(expected, found, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(expected), len(found)))
