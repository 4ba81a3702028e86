"""What happens to a run, as a stream of events that can be taken up again anywhere.

A stream is read from what the store holds, which only grows. So its position is how much of each kind has been told,
and whoever comes back with that position misses nothing and hears nothing twice.
"""

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace

from research_exchange.documents.json import JsonValue
from research_exchange.server.views import (
    cancellation_json,
    entry_json,
    evidence_json,
    outcome_json,
    recorded_judgment,
    session_json,
    update_json,
)
from research_exchange.store import Reader, SessionRecord

MAX_TOLD_BYTES = 64 * 1024
"""Of an update; a larger one is announced, and read at its own address."""
MAX_AT_ONCE = 200


@dataclass(frozen=True)
class Position:
    """How much of each kind has been told."""

    updates: int = 0
    evidence: int = 0
    sessions: int = 0
    ends: int = 0
    """Of sessions."""
    queued: int = 0
    cancellations: int = 0
    outcomes: int = 0

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read what `str` wrote.

        Raises:
            ValueError: it is something else.
        """
        counts = [int(part) for part in text.split("-")]
        if len(counts) != len(astuple(cls())) or not all(0 <= count < 2**31 for count in counts):
            raise ValueError
        return cls(*counts)

    def __str__(self) -> str:
        return "-".join(map(str, astuple(self)))


@dataclass(frozen=True)
class Event:
    kind: str
    """update, evidence, session, session_end, queued, cancelled or outcome."""
    data: JsonValue
    position: Position
    """After this event."""

    def encode(self) -> bytes:
        """As `text/event-stream`."""
        return f"id: {self.position}\nevent: {self.kind}\ndata: {json.dumps(self.data)}\n\n".encode()


def events(reader: Reader, run_id: str, since: Position) -> Iterator[Event]:
    """What has come since a position, kind by kind in the order in which it came; `MAX_AT_ONCE` updates at most."""
    at = since
    for session in reader.sessions(run_id)[at.sessions :]:
        at = replace(at, sessions=at.sessions + 1)
        yield Event("session", session_json(session), at)
    for head in reader.update_heads(run_id, MAX_AT_ONCE, at.updates):
        at = replace(at, updates=at.updates + 1)
        update = reader.update(run_id, head.sequence) if head.size <= MAX_TOLD_BYTES else None
        told = update_json(head, None if update is None else update.malformed)
        body = None if update is None or update.body is None else dict(update.body)
        yield Event("update", {**told, "document": body}, at)
    for file in reader.evidence(run_id)[at.evidence :]:
        at = replace(at, evidence=at.evidence + 1)
        yield Event("evidence", evidence_json(file), at)
    for session in _ended(reader, run_id)[at.ends :]:
        at = replace(at, ends=at.ends + 1)
        yield Event("session_end", session_json(session), at)
    for entry in reader.queue_entries(run_id)[at.queued :]:
        at = replace(at, queued=at.queued + 1)
        yield Event("queued", entry_json(entry), at)
    cancellation = reader.cancellation(run_id)
    if cancellation is not None and not at.cancellations:
        at = replace(at, cancellations=1)
        yield Event("cancelled", cancellation_json(cancellation), at)
    if reader.count_outcomes(run_id) > at.outcomes:
        for outcome in reader.outcomes(run_id)[at.outcomes :]:
            at = replace(at, outcomes=at.outcomes + 1)
            recorded = recorded_judgment(outcome)
            said = {name: recorded.get(name) for name in ("recorded_verdict", "outcome_reason", "withheld")}
            yield Event("outcome", {**outcome_json(outcome), **said}, at)


def reached(reader: Reader, run_id: str) -> Position:
    """Where a run has come to: the position after the last event that there is now."""
    sessions = reader.sessions(run_id)
    return Position(
        updates=reader.count_updates(run_id),
        evidence=len(reader.evidence(run_id)),
        sessions=len(sessions),
        ends=sum(session.end is not None for session in sessions),
        queued=len(reader.queue_entries(run_id)),
        cancellations=int(reader.cancellation(run_id) is not None),
        outcomes=reader.count_outcomes(run_id),
    )


def _ended(reader: Reader, run_id: str) -> list[SessionRecord]:
    """In the order in which they ended."""
    ends = [(each.end.ended_at, each.number, each) for each in reader.sessions(run_id) if each.end is not None]
    return [session for _, _, session in sorted(ends, key=lambda end: end[:2])]
