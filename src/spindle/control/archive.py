"""A checkpoint as one uncompressed tar file, made while it is sent: plain files without folders or links."""

import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

PIECE = 1 << 20
"""Bytes handed on at a time."""

COMPLETE = "checkpoint_complete"
"""Empty last member, by which clients of old tell a whole archive."""

_END = b"\0" * (2 * tarfile.BLOCKSIZE)


def length(files: Mapping[str, Path]) -> int:
    """Bytes of the archive."""
    sizes = {name: file.stat().st_size for name, file in files.items()} | {COMPLETE: 0}
    members = (len(_header(name, size)) + size + _padding(size) for name, size in sizes.items())
    return sum(members) + len(_END)


def pieces(files: Mapping[str, Path]) -> Iterator[bytes]:
    """The archive, piece by piece."""
    for name, file in files.items():
        size = file.stat().st_size
        yield _header(name, size)
        with file.open("rb") as content:
            while piece := content.read(PIECE):
                yield piece
        yield b"\0" * _padding(size)
    yield _header(COMPLETE, 0)
    yield _END


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT)


def _padding(size: int) -> int:
    return -size % tarfile.BLOCKSIZE
