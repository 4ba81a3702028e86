"""Evidence bytes in a folder, named by their own SHA-256 and read back only while they still have it (R-16C)."""

import hashlib
import os
import tempfile
from pathlib import Path

from research_exchange.documents.evidence import EvidenceLost


class BlobStore:
    """Content-addressed files `<root>/ab/cdef…`; the same bytes are kept once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def put(self, content: bytes) -> str:
        """Keep `content`, on the disk and not only in its cache, and return its SHA-256."""
        sha256 = hashlib.sha256(content).hexdigest()
        if not self._is_intact(sha256):
            self._write(self.path(sha256), content)
        return sha256

    def read(self, sha256: str) -> bytes:
        """The bytes named `sha256`.

        Raises:
            EvidenceLost: They are gone, or are no longer the bytes that were accepted.
        """
        try:
            content = self.path(sha256).read_bytes()
        except OSError as error:
            raise EvidenceLost(f"nothing readable in the place of {sha256[:12]} ({error.strerror})") from error
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise EvidenceLost(f"other bytes in the place of {sha256[:12]}, with the hash {found[:12]}")
        return content

    def path(self, sha256: str) -> Path:
        return self._root / sha256[:2] / sha256[2:]

    def _is_intact(self, sha256: str) -> bool:
        try:
            self.read(sha256)
        except EvidenceLost:
            return False
        return True

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._root, prefix=".incoming-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
        _sync_folder(self._root)


def _sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: a renamed file survives a power cut only once its folder is written."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
