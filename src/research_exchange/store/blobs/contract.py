"""What every keeper of evidence bytes can do."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol

from research_exchange.documents.evidence import EvidenceLost

if TYPE_CHECKING:
    from research_exchange.store.blobs.incoming import Incoming

MISSING = "missing"
"""The `state` of bytes that are not there."""
RENEW_AFTER_SECONDS = 12 * 3600
"""Bytes that are offered again although they are kept already, for longer than this, count as new from then on: they
may be about to be referred to, and whoever removes what nothing refers to passes over new ones."""


class BlobTooLarge(Exception):
    """More bytes came than one file may have (R-163)."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"A file may have {limit:,} bytes at most; this one has more.")
        self.limit = limit


class StorageUnreachable(OSError):
    """The store of evidence bytes does not answer or does not let us in: nothing is known about what it holds.

    One sentence. Unlike `EvidenceLost` it says nothing about a run; asking again later may do.
    """


@dataclass(frozen=True)
class StoredBlob:
    sha256: str
    size: int


def expect(sha256: str, found: str) -> None:
    """Hold bytes that were read, with the hash `found`, to their name.

    Raises:
        EvidenceLost: They are not the bytes that were accepted.
    """
    if found != sha256:
        raise EvidenceLost(f"other bytes in the place of {sha256[:12]}, with the hash {found[:12]}")


class BlobStore(Protocol):
    """Content-addressed bytes; the same bytes are kept once.

    Each method may raise `StorageUnreachable`, or another `OSError` such as a full disk.
    """

    def receive(self, limit: int) -> "AbstractContextManager[Incoming]":
        """Bytes that are to come, at most `limit` of them; those that are not kept when the block ends are gone."""
        ...

    def put(self, content: bytes) -> str:
        """Keep `content`, on the disk and not only in its cache, and return its SHA-256."""
        ...

    def put_stream(self, chunks: Iterable[bytes], limit: int) -> StoredBlob:
        """Keep what comes in pieces, never holding all of it in memory.

        Raises:
            BlobTooLarge: More than `limit` bytes came; nothing is kept.
        """
        ...

    def read(self, sha256: str) -> bytes:
        """The bytes named `sha256`.

        Raises:
            EvidenceLost: They are gone, or are no longer the bytes that were accepted.
        """
        ...

    def open(self, sha256: str) -> IO[bytes]:
        """The same as a file, at its start, for bytes that are better not held in memory; hashed before it returns.

        Raises:
            EvidenceLost: They are gone, or are no longer the bytes that were accepted.
        """
        ...

    def state(self, sha256: str) -> str:
        """A cheap fingerprint of what is in the place of `sha256`; it changes whenever the bytes may have changed."""
        ...

    def digests(self, older_than_seconds: float = 0) -> Iterator[str]:
        """The names of the bytes that are kept, for at least so long, in no order."""
        ...

    def remove(self, sha256: str, older_than_seconds: float = 0) -> bool:
        """Forget bytes that nothing refers to, unless they came, or came again, within so long.

        Returns:
            Whether they are forgotten.
        """
        ...

    def remove_leftovers(self, older_than_seconds: float) -> int:
        """Remove what uploads that were cut off left behind, and say how many of them there were."""
        ...
