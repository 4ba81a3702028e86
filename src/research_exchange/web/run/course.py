"""What happened to a run, in order: waiting, sessions, the first report of each part, the arms, and the outcomes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from research_exchange.server import RunView

MAX_SHOWN = 80
"""Of the most recent events; the lists of updates, sessions and outcomes have all."""


@dataclass(frozen=True)
class Event:
    at: datetime
    text: str
    update: int | None = None
    """The update that said so."""


@dataclass(frozen=True)
class Course:
    events: tuple[Event, ...]
    earlier: int
    """Events before those that are shown."""


def course(view: RunView) -> Course:
    """By the time of receipt; what came at one moment stays in the order in which one thing leads to another."""
    found = sorted(_events(view), key=lambda event: event.at)
    return Course(tuple(found[-MAX_SHOWN:]), max(0, len(found) - MAX_SHOWN))


def _events(view: RunView) -> Iterator[Event]:
    yield Event(view.run.created_at, "created")
    for entry in view.queue:
        later = f", not before {entry.not_before:%H:%M}" if entry.not_before > entry.queued_at else ""
        yield Event(entry.queued_at, f"queued by {entry.by}{later}: {entry.reason}")
        if entry.claimed_at is not None:
            yield Event(entry.claimed_at, f"taken from the queue by {entry.claimed_by}")
    for session in view.sessions:
        yield Event(session.started_at, f"session {session.number} began, {session.runner.value}")
        if session.end is not None:
            code = "" if session.end.exit_code is None else f" with exit code {session.end.exit_code}"
            yield Event(session.end.ended_at, f"session {session.number} ended{code}: {session.end.reason}")
    received = {head.sequence: head.received_at for head in view.heads}
    for part, history in view.state.posted.items():
        if history[0].update in received:
            name = part.replace("_", " ")
            yield Event(received[history[0].update], f"{name} reported for the first time", history[0].update)
    for arm, update in view.state.completed_arms.items():
        if update in received:
            yield Event(received[update], f"arm {arm} completed", update)
    if view.state.final_update in received:
        yield Event(received[view.state.final_update], "final update", view.state.final_update)
    if view.cancellation is not None:
        yield Event(view.cancellation.at, f"cancelled by {view.cancellation.by}: {view.cancellation.reason}")
    for outcome in view.outcomes:
        yield Event(outcome.recorded_at, f"outcome {outcome.number} recorded: {outcome.cause}")
