"""Retained evidence: immutable files of a run, read back and hashed again each time they are used (R-009, R-16C)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

__all__ = ["KINDS", "EvidenceFile", "EvidenceLost", "EvidenceShelf"]

KINDS = (
    "script",
    "effective_config",
    "code_revision",
    "code_patch",
    "predictions",
    "generated_tasks",
    "metrics",
    "probe",
    "provenance",
    "log",
    "diagnostic",
    "report",
    "other",
)
"""What a file may be (R-161); anything else is stored as `other`."""


class EvidenceLost(Exception):
    """A retained file cannot be read back as it was stored; the message is a phrase for what was found instead."""


@dataclass(frozen=True)
class EvidenceFile:
    """One accepted file of a run."""

    name: str
    kind: str
    sha256: str
    size: int
    update: int | None
    """The update that introduced it; None for a file that was uploaded by itself."""
    content: Callable[[], bytes]
    """Reads the stored bytes; raises `EvidenceLost` where there are none."""
    after: int = 0
    """The newest update when it came, the one that introduced it left aside; 0 before the first."""

    def read(self) -> bytes:
        """The bytes, after their hash was taken again.

        Raises:
            EvidenceLost: if they are missing or are no longer the bytes that were stored.
        """
        try:
            content = self.content()
        except OSError as error:
            raise EvidenceLost(f"stored bytes of {self.name} that cannot be read ({type(error).__name__})") from None
        if sha256(content).hexdigest() != self.sha256:
            raise EvidenceLost(f"stored bytes of {self.name} without the hash they were accepted with")
        return content


class EvidenceShelf:
    """A run's files by name; each is read and hashed at most once."""

    def __init__(self, files: Sequence[EvidenceFile]) -> None:
        self.files = tuple(files)
        self._by_name = {file.name: file for file in files}
        self._read: dict[str, bytes | EvidenceLost] = {}

    def find(self, name: str) -> EvidenceFile | None:
        return self._by_name.get(name)

    def read(self, name: str) -> bytes:
        """The verified bytes of a file.

        Raises:
            EvidenceLost: if this run retains no such file, or its bytes are gone or changed.
        """
        if name not in self._read:
            self._read[name] = self._try(name)
        result = self._read[name]
        if isinstance(result, EvidenceLost):
            raise result
        return result

    def _try(self, name: str) -> bytes | EvidenceLost:
        file = self._by_name.get(name)
        if file is None:
            return EvidenceLost("no file of that name")
        try:
            return file.read()
        except EvidenceLost as lost:
            return lost
