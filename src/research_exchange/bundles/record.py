"""The record of a run in a bundle (`run.json`): everything that an Exchange holds of it, but for the bytes themselves.

Bytes are members of the bundle. Each entry knows the name of its own, and has their hash.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

__all__ = [
    "JUDGMENT",
    "RECORD",
    "SPEC",
    "VERSION",
    "CancellationEntry",
    "EvidenceEntry",
    "IdeaEntry",
    "JudgmentEntry",
    "Loss",
    "OutcomeEntry",
    "QueueEntry",
    "RefusalEntry",
    "RunEntry",
    "RunRecord",
    "SessionEntry",
    "Software",
    "SpecEntry",
    "UpdateEntry",
]

VERSION = 1
"""Of the form of a bundle."""
RECORD, SPEC, JUDGMENT = "run.json", "spec.json", "judgment.json"


@dataclass(frozen=True)
class RunEntry:
    """The run itself (R-004)."""

    id: str
    spec_id: str
    launch_mode: str
    redo_of: str | None
    """The run that this one repeats (R-006)."""
    created_at: datetime
    ended: str | None
    """Why it ended without a final update (R-067); None where one was posted, or may still come."""


@dataclass(frozen=True)
class SpecEntry:
    """The spec version; its bytes are `spec.json` (R-002)."""

    title: str
    sha256: str
    saved_at: datetime
    parent: str | None
    """The version that it was made from."""


@dataclass(frozen=True)
class IdeaEntry:
    """The idea's words as they were when the spec version was saved (R-003)."""

    id: str
    snapshot: int
    at: datetime
    author: str
    title: str
    summary: str | None
    source_url: str | None
    triage: str | None


@dataclass(frozen=True)
class SessionEntry:
    """One sitting of a runner at the run (R-004)."""

    id: str
    runner: str | None
    """`local`, `agent`, `manual` or `script`; None where nobody said."""
    started_at: datetime
    ended_at: datetime | None
    exit_code: int | None
    reason: str | None
    """Why it ended."""
    brief_sha256: str | None
    """Of what the runner was told (R-051)."""

    @property
    def brief(self) -> str | None:
        """The member with its brief."""
        return None if self.brief_sha256 is None else f"briefs/{self.brief_sha256}.md"


@dataclass(frozen=True)
class UpdateEntry:
    """One posted update (R-007)."""

    sequence: int
    received_at: datetime
    session: str | None
    sha256: str
    size: int

    @property
    def member(self) -> str:
        """The member with its bytes as they were posted."""
        return f"updates/{self.sequence:06}.json"


@dataclass(frozen=True)
class EvidenceEntry:
    """A retained file (R-009)."""

    name: str
    kind: str
    sha256: str
    size: int
    update: int | None
    """The update that carried it; None where it was uploaded by itself."""
    after: int
    """The newest update before it; 0 before the first."""
    received_at: datetime

    @property
    def member(self) -> str:
        """The member with its bytes, unless they were lost."""
        return f"evidence/{self.name}"


@dataclass(frozen=True)
class RefusalEntry:
    """A file that was not taken, and why; its bytes are nowhere (R-169)."""

    name: str
    problems: tuple[str, ...]
    update: int | None
    received_at: datetime


@dataclass(frozen=True)
class OutcomeEntry:
    """A judgment on record (R-011, R-214)."""

    number: int
    """From 1 within the run; the last one stands."""
    recorded_at: datetime
    cause: str
    validator_version: str
    sha256: str

    @property
    def member(self) -> str:
        """The member with the judgment, canonical JSON."""
        return f"judgments/{self.number:04}.json"


@dataclass(frozen=True)
class JudgmentEntry:
    """What the rules said of all this when it was exported, whatever is on record; it is `judgment.json`."""

    validator_version: str
    sha256: str


@dataclass(frozen=True)
class QueueEntry:
    """The run waited for a runner (R-202)."""

    number: int
    """From 1 within the run."""
    queued_at: datetime
    not_before: datetime
    reason: str
    by: str
    claimed_at: datetime | None
    """When a runner took it; None while it waits."""
    claimed_by: str | None


@dataclass(frozen=True)
class CancellationEntry:
    """Somebody called the run off."""

    at: datetime
    by: str
    reason: str


@dataclass(frozen=True)
class Loss:
    """A member that the Exchange could not read any more when the run was exported (R-16C)."""

    member: str
    found: str
    """What was found in its place."""


@dataclass(frozen=True)
class Software:
    """Something that the Exchange ran on when it exported the run."""

    name: str
    version: str


@dataclass(frozen=True)
class RunRecord:
    """One consistent moment of a run."""

    version: int
    """`VERSION`."""
    run: RunEntry
    spec: SpecEntry
    idea: IdeaEntry | None
    sessions: tuple[SessionEntry, ...]
    """In the order in which they started."""
    updates: tuple[UpdateEntry, ...]
    """In order of receipt."""
    evidence: tuple[EvidenceEntry, ...]
    """In the order in which the files were accepted."""
    refused: tuple[RefusalEntry, ...]
    outcomes: tuple[OutcomeEntry, ...]
    """Oldest first."""
    judgment: JudgmentEntry
    queue: tuple[QueueEntry, ...]
    cancelled: CancellationEntry | None
    software: tuple[Software, ...]
    lost: tuple[Loss, ...] = ()
    """What should be in the bundle and is not."""

    def hashes(self) -> dict[str, str]:
        """Every member that this record names, in the order of a bundle, with its SHA-256; the lost ones left out."""
        lost = {loss.member for loss in self.lost}
        return {name: sha256 for name, sha256 in self._named() if name not in lost}

    def _named(self) -> Iterator[tuple[str, str]]:
        yield SPEC, self.spec.sha256
        for session in self.sessions:
            if session.brief is not None and session.brief_sha256 is not None:
                yield session.brief, session.brief_sha256
        yield from ((update.member, update.sha256) for update in self.updates)
        yield from ((file.member, file.sha256) for file in self.evidence)
        yield from ((outcome.member, outcome.sha256) for outcome in self.outcomes)
        yield JUDGMENT, self.judgment.sha256

    @property
    def posted(self) -> tuple[UpdateEntry | EvidenceEntry, ...]:
        """What a runner posted: updates, then files."""
        return (*self.updates, *self.evidence)

    @property
    def last_moment(self) -> datetime:
        """The newest moment that anything here was put on record."""
        moments = [self.run.created_at, self.spec.saved_at]
        moments += [moment for each in self.sessions for moment in (each.started_at, each.ended_at) if moment]
        moments += [each.received_at for each in self.posted] + [each.received_at for each in self.refused]
        moments += [each.recorded_at for each in self.outcomes]
        moments += [moment for each in self.queue for moment in (each.queued_at, each.claimed_at) if moment]
        return max(moments if self.cancelled is None else [*moments, self.cancelled.at])
