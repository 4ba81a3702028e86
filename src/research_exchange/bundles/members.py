"""What a bundle is made of: members, each a name and bytes, in a zip file or in a folder."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Protocol, TypeAlias

from research_exchange.documents.gates import Problem
from research_exchange.documents.json import DocumentError

__all__ = [
    "MOST_BYTES",
    "MOST_MEMBERS",
    "Contents",
    "Folder",
    "Member",
    "Members",
    "NotABundle",
    "broken",
    "kept",
    "read_text",
]

MOST_MEMBERS = 60_000
MOST_BYTES = 2 * 1024**3
"""Of all members together. At most 40 MiB are evidence (R-163); what is left is for tens of thousands of updates."""
MOST_TEXT_BYTES = 64 * 1024**2
"""Of a member that is read as JSON and speaks of others."""
_DEEPEST = 2
"""Folders inside one another that a bundle can have, and one to show that it has too many."""

Contents: TypeAlias = Mapping[str, Callable[[], bytes]]
"""By the name of a member, what reads its bytes."""


class NotABundle(Exception):
    """Something else was given where a bundle was wanted; the text is one sentence for a person."""


@dataclass(frozen=True)
class Member:
    """What was found of a member."""

    size: int
    sha256: str


class Members(Protocol):
    """Where the members of a bundle are."""

    members: dict[str, Member]
    """By name, such as `updates/000001.json`."""
    problems: list[Problem]
    """What is wrong with the form, whatever the members say."""

    def read(self, name: str) -> bytes:
        """The bytes of a member. Raises `KeyError` for a name that is none."""
        ...


class Folder:
    """The members of a bundle that was unpacked. A link is not followed, and nothing but plain files is read."""

    def __init__(self, path: Path) -> None:
        """Hashes every file.

        Raises:
            NotABundle: if it holds more than any bundle.
            OSError: if it cannot be read.
        """
        self.members: dict[str, Member] = {}
        self.problems: list[Problem] = []
        self._path = path
        total = 0
        for entry, name in _files_in(path, ""):
            if not _is_text(name):
                self.problems.append(broken(ascii(name)[1:-1], "a name in UTF-8", "other bytes"))
                continue
            if not entry.is_file(follow_symlinks=False):
                self.problems.append(broken(name, "a plain file", "a link, or something that is no file"))
                continue
            size = entry.stat(follow_symlinks=False).st_size
            total += size
            if len(self.members) == MOST_MEMBERS or total > MOST_BYTES:
                raise NotABundle(f"{path} holds more than any bundle: {MOST_MEMBERS:,} files and {MOST_BYTES:,} bytes.")
            with (path / name).open("rb") as file:
                self.members[name] = Member(size, file_digest(file, "sha256").hexdigest())

    def read(self, name: str) -> bytes:
        """The bytes of a member. Raises `KeyError` for a name that is none."""
        if name not in self.members:
            raise KeyError(name)
        with (self._path / name).open("rb") as file:
            return file.read(self.members[name].size)


def kept(content: bytes) -> Callable[[], bytes]:
    """What reads bytes that are in memory."""
    return lambda: content


def read_text(members: Members, name: str) -> bytes:
    """The bytes of a member that speaks of others.

    Raises:
        DocumentError: if it is missing, or larger than such a text may be.
    """
    member = members.members.get(name)
    if member is None:
        raise DocumentError(f"{name} is missing.")
    if member.size > MOST_TEXT_BYTES:
        raise DocumentError(f"{name} has {member.size:,} bytes; {MOST_TEXT_BYTES:,} are enough for any run.")
    return members.read(name)


def broken(member: str, expected: str, found: str) -> Problem:
    """A member that is not as it was exported (R-16C)."""
    return Problem("R-16C", member, expected, found, "Export the run again.")


def _is_text(name: str) -> bool:
    """Whether a name of a file is one; a file system takes any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _files_in(folder: Path, prefix: str) -> Iterator[tuple[os.DirEntry[str], str]]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False) and name.count("/") < _DEEPEST:
            yield from _files_in(folder / entry.name, f"{name}/")
        else:
            yield entry, name
