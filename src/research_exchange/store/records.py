"""Rows of the store as frozen records. Times are aware and in UTC, digests are 64 lowercase hex."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from research_exchange.documents.json import JsonValue
from research_exchange.documents.launch import LaunchMode


@dataclass(frozen=True)
class IdeaRecord:
    """An idea (R-001). What it says is in its snapshots; the last one is its current text."""

    id: str
    created_at: datetime
    author: str
    source_key: str | None = None
    """What it was made from, by the source's own key such as `slack:T1:C2:1700000000.0001`; no two ideas share one."""


@dataclass(frozen=True)
class SnapshotRecord:
    """An idea's text from one moment to the next (R-003)."""

    idea_id: str
    number: int
    """Counts from 1 within the idea."""
    at: datetime
    author: str
    title: str
    summary: str | None = None
    source_url: str | None = None
    triage: str | None = None


@dataclass(frozen=True)
class SpecRecord:
    """An immutable spec version (R-002)."""

    id: str
    sha256: str
    title: str
    created_at: datetime
    raw: bytes
    """Exactly the bytes that were registered."""
    parent: str | None = None
    """The version that it was made from."""
    idea_id: str | None = None
    idea_snapshot: int | None = None
    """Number of the idea's snapshot when the version was saved; its context for ever (R-003)."""


class RunPhase(StrEnum):
    """Where a run stands, as a list of runs shows it."""

    CREATED = "created"
    """Nobody has sat down at it yet."""
    QUEUED = "queued"
    RUNNING = "running"
    """Its newest session has not ended, and no outcome was recorded since it started."""
    ENDED = "ended"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class HandedIn:
    """Of the attachments of a run."""

    files: int
    bytes: int


@dataclass(frozen=True)
class RunRecord:
    id: str
    spec_id: str
    title: str
    """Its spec's title."""
    launch_mode: LaunchMode
    created_at: datetime
    phase: RunPhase
    redo_of: str | None = None
    """The earlier run that a redo was asked to repeat (R-006)."""


class RunnerKind(StrEnum):
    """Who executes a brief."""

    LOCAL = "local"
    """The spec's command, started by `rx` on this machine."""
    AGENT = "agent"
    """A coding agent that was given the brief."""
    MANUAL = "manual"
    """A person."""
    SCRIPT = "script"
    """A script that reports by itself."""


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
    run_id: str
    number: int
    """Counts from 1 within the run, by the order of starting, whatever the clock says."""
    started_at: datetime
    end: SessionEnd | None
    runner: RunnerKind
    brief_sha256: str | None
    """The blob of the brief as it was rendered for the session (R-051)."""
    last_seen: datetime | None
    """Its last heartbeat; None before the first."""


@dataclass(frozen=True)
class UpdateHead:
    """What is known of an update without reading it."""

    sequence: int
    received_at: datetime
    session_id: str | None
    sha256: str
    size: int


class UpdateMark(NamedTuple):
    """What tells an update from others of its run."""

    sequence: int
    sha256: str


class Standing(NamedTuple):
    """What a run has when an update is delivered to it."""

    newest: UpdateMark | None
    """Its last update."""
    keyed: UpdateMark | None
    """The update that came under the same key."""
    open_session: str | None
    """The newest session that has not ended."""

    @property
    def last_number(self) -> int:
        """0 where the run has no update."""
        return 0 if self.newest is None else self.newest.sequence


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


ASKED_FOR = "asked for"
"""The cause of an outcome that somebody asked for; any other says how the run ended."""


@dataclass(frozen=True)
class OutcomeRecord:
    """A judgment as it was recorded (R-011, R-214). Later ones stand beside it, never over it."""

    number: int
    """Counts from 1 within the run."""
    recorded_at: datetime
    cause: str
    """What made the Exchange record it: how the run ended, or `ASKED_FOR`."""
    validator_version: str
    judgment: bytes
    """Canonical JSON."""


@dataclass(frozen=True)
class GateRecord:
    """A gate of a recorded outcome (R-010); its problems are in the outcome's judgment."""

    run_id: str
    outcome: int
    """Number of the outcome."""
    gate: str
    applicability: str
    status: str
    validator_version: str


@dataclass(frozen=True)
class QueueRecord:
    """A run that waits, or waited, for a runner (R-202)."""

    run_id: str
    number: int
    """Counts from 1 within the run."""
    queued_at: datetime
    not_before: datetime
    reason: str
    """Why it waits, for a reader of the queue."""
    by: str
    claimed_at: datetime | None = None
    """When a runner took it; None while it waits."""
    claimed_by: str | None = None


@dataclass(frozen=True)
class QueuedRun:
    """An open entry of the queue, with the run that waits."""

    entry: QueueRecord
    run: RunRecord


@dataclass(frozen=True)
class Cancellation:
    run_id: str
    at: datetime
    by: str
    reason: str


class Role(StrEnum):
    """What the holder of a token may do."""

    ADMIN = "admin"
    RESEARCHER = "researcher"
    """Ideas, specs, runs and their queue, and asking for judgments."""
    REVIEWER = "reviewer"
    """Reads only."""
    RUNNER = "runner"
    """Reads one run and reports to it (R-241)."""


@dataclass(frozen=True)
class TokenRecord:
    """A token that was given out. Of its secret only the SHA-256 is kept, and not in here."""

    id: str
    role: Role
    name: str
    """Whom or what it is for."""
    run_id: str | None
    """The one run of a runner's token."""
    created_at: datetime
    expires_at: datetime | None = None
    """From this moment on it is no good; None means that it does not end by itself."""
    revoked_at: datetime | None = None

    def why_refused(self, at: datetime) -> str | None:
        """One clause on why it is no good at the moment `at`; None while it is."""
        if self.revoked_at is not None:
            return f"it was revoked at {self.revoked_at:%Y-%m-%d %H:%M} UTC"
        if self.expires_at is not None and self.expires_at <= at:
            return f"it ended at {self.expires_at:%Y-%m-%d %H:%M} UTC"
        return None


@dataclass(frozen=True)
class AuditRecord:
    """Somebody did something."""

    number: int
    """Counts from 1."""
    at: datetime
    actor: str
    """A token's id, or the part of the Exchange that acted by itself."""
    action: str
    subject: str
    """The id of what it was done to."""
    detail: Mapping[str, JsonValue]


class HookKind(StrEnum):
    """How a notification travels."""

    WEBHOOK = "webhook"
    SLACK = "slack"


@dataclass(frozen=True)
class HookRecord:
    """Where to tell of a run's events."""

    id: str
    kind: HookKind
    url: str
    secret_ref: str | None
    """Name of the environment variable with the secret; the secret itself is not kept."""
    events: tuple[str, ...]
    created_at: datetime
    removed_at: datetime | None = None


class DeliveryStatus(StrEnum):
    """What became of a notification."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    """It will not be tried again."""


@dataclass(frozen=True)
class DeliveryRecord:
    hook_id: str
    number: int
    """Counts from 1 within the hook."""
    run_id: str
    event: str
    at: datetime
    """When it was made or last tried."""
    attempts: int
    status: DeliveryStatus
    detail: str
    """What the last attempt met with."""
