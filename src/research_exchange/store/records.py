"""Rows of the store as frozen records. Times are aware and in UTC, digests are 64 lowercase hex."""

from dataclasses import dataclass
from datetime import datetime

from research_exchange.documents.launch import LaunchMode


@dataclass(frozen=True)
class SpecRecord:
    """An immutable spec version (R-002)."""

    id: str
    sha256: str
    title: str
    created_at: datetime
    raw: bytes
    """Exactly the bytes that were registered."""


@dataclass(frozen=True)
class RunRecord:
    id: str
    spec_id: str
    title: str
    """Its spec's title."""
    launch_mode: LaunchMode
    created_at: datetime


@dataclass(frozen=True)
class SessionEnd:
    ended_at: datetime
    exit_code: int | None
    """None when no process ended, e.g. a person closed the session."""
    reason: str


@dataclass(frozen=True)
class SessionRecord:
    """One sitting of a runner at a run; a re-queue adds another (R-004)."""

    id: str
    started_at: datetime
    end: SessionEnd | None


@dataclass(frozen=True)
class EvidenceRecord:
    """An accepted evidence file (R-009); its bytes are the blob named by `sha256`."""

    name: str
    kind: str
    sha256: str
    size: int
    update: int | None
    """Sequence number of the update that carried it; None for an upload of its own."""
    received_at: datetime
    after: int = 0
    """Of an upload of its own: the sequence number of the newest update when it came, 0 before the first."""


@dataclass(frozen=True)
class RefusalRecord:
    """A file that was refused. Its bytes are not kept (R-169); why it was refused is."""

    name: str
    problems: tuple[str, ...]
    update: int | None
    received_at: datetime


@dataclass(frozen=True)
class OutcomeRecord:
    """A judgment as it was recorded (R-011, R-214). Later ones stand beside it, never over it."""

    number: int
    """Counts from 1 within the run."""
    recorded_at: datetime
    cause: str
    """What made the Exchange record it: `update 7`, `session ses_… ended`, or `asked for`."""
    validator_version: str
    judgment: bytes
    """Canonical JSON."""
