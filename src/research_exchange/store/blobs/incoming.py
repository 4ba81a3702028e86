"""Bytes on their way in: counted as they come, on this machine's disk before anybody decides about them."""

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from research_exchange.store.blobs.contract import BlobTooLarge, StoredBlob

PREFIX = ".incoming-"


class Incoming:
    """A file that grows under a cap, and is kept only by `keep`."""

    def __init__(self, file: IO[bytes], path: Path, limit: int, store: Callable[["Incoming"], None]) -> None:
        self.path = path
        self.size = 0
        self._file = file
        self._limit = limit
        self._store = store
        self._hashed: tuple[int, str] | None = None

    @property
    def sha256(self) -> str:
        """Of what came so far. Other threads go on while it is computed."""
        if self._hashed is None or self._hashed[0] != self.size:
            self._file.flush()
            with self.path.open("rb") as file:
                self._hashed = self.size, hashlib.file_digest(file, "sha256").hexdigest()
        return self._hashed[1]

    def write(self, chunk: bytes) -> None:
        """Take in the next bytes.

        Raises:
            BlobTooLarge: They are more than may come; nothing of this chunk is taken.
        """
        if self.size + len(chunk) > self._limit:
            raise BlobTooLarge(self._limit)
        self.size += len(chunk)
        self._file.write(chunk)

    def content(self) -> bytes:
        """What came so far, to be looked at."""
        self._file.flush()
        return self.path.read_bytes()

    def keep(self) -> StoredBlob:
        """Make the bytes durable under their hash; when this returns they survive a power cut."""
        self._file.flush()
        self._store(self)
        return StoredBlob(self.sha256, self.size)

    def sync(self) -> None:
        """Bring the file itself onto the disk."""
        os.fsync(self._file.fileno())


@contextmanager
def incoming_file(folder: Path, limit: int, store: Callable[[Incoming], None]) -> Iterator[Incoming]:
    """A new incoming file in `folder`; what `store` did not take away is removed at the end."""
    handle, name = tempfile.mkstemp(dir=folder, prefix=PREFIX)
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield Incoming(file, path, limit, store)
    finally:
        path.unlink(missing_ok=True)


def remove_old_incoming(folder: Path, older_than_seconds: float) -> int:
    """Remove incoming files that a killed server left; those still being written are young."""
    removed = 0
    for path in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):  # its writer has just put it in its place
            if time.time() - path.stat().st_mtime > older_than_seconds:
                path.unlink()
                removed += 1
    return removed
