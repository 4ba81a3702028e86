"""Evidence bytes in a folder of this machine."""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from io import BufferedReader
from pathlib import Path
from typing import IO

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.durable import sync_folder
from research_exchange.store.blobs.contract import MISSING, RENEW_AFTER_SECONDS, StoredBlob, expect
from research_exchange.store.blobs.incoming import Incoming, incoming_file, remove_old_incoming


class FolderBlobs:
    """Content-addressed files `<root>/ab/cdef…`; the same bytes are kept once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def receive(self, limit: int) -> AbstractContextManager[Incoming]:
        return incoming_file(self._root, limit, self._keep)

    def put(self, content: bytes) -> str:
        return self.put_stream([content], len(content)).sha256

    def put_stream(self, chunks: Iterable[bytes], limit: int) -> StoredBlob:
        with self.receive(limit) as incoming:
            for chunk in chunks:
                incoming.write(chunk)
            return incoming.keep()

    def read(self, sha256: str) -> bytes:
        with self._open(sha256) as file:
            content = file.read()
        expect(sha256, hashlib.sha256(content).hexdigest())
        return content

    def open(self, sha256: str) -> IO[bytes]:
        file = self._open(sha256)
        try:
            expect(sha256, hashlib.file_digest(file, "sha256").hexdigest())
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    def state(self, sha256: str) -> str:
        try:
            found = self.path(sha256).stat()
        except FileNotFoundError:
            return MISSING
        return f"{found.st_size}-{found.st_mtime_ns}-{found.st_ino}"

    def digests(self, older_than_seconds: float = 0) -> Iterator[str]:
        for path in self._root.glob("[0-9a-f][0-9a-f]/*"):
            if _age(path) >= older_than_seconds:
                yield path.parent.name + path.name

    def remove(self, sha256: str, older_than_seconds: float = 0) -> bool:
        path = self.path(sha256)
        try:
            is_old = _age(path) >= older_than_seconds
            if is_old:
                path.unlink()
        except FileNotFoundError:
            return False
        return is_old

    def remove_leftovers(self, older_than_seconds: float) -> int:
        return remove_old_incoming(self._root, older_than_seconds)

    def path(self, sha256: str) -> Path:
        return self._root / sha256[:2] / sha256[2:]

    def _open(self, sha256: str) -> BufferedReader:
        try:
            return self.path(sha256).open("rb")
        except FileNotFoundError as error:
            raise EvidenceLost(f"nothing readable in the place of {sha256[:12]} ({error.strerror})") from error

    def _keep(self, incoming: Incoming) -> None:
        path = self.path(incoming.sha256)
        if self._is_intact(incoming.sha256) and _is_renewed(path):
            return
        incoming.sync()
        is_new_folder = not path.parent.exists()
        path.parent.mkdir(exist_ok=True)
        incoming.path.replace(path)
        sync_folder(path.parent)
        if is_new_folder:
            sync_folder(self._root)

    def _is_intact(self, sha256: str) -> bool:
        try:
            self.open(sha256).close()
        except EvidenceLost:
            return False
        return True


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _is_renewed(path: Path) -> bool:
    """Whether bytes are there, and as good as new; whoever removes old ones may have come in between."""
    try:
        if _age(path) > RENEW_AFTER_SECONDS:
            os.utime(path)
    except FileNotFoundError:
        return False
    return True
