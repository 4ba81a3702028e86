"""Whether a run that want of capacity stopped starts again by itself, and when (R-202)."""

from datetime import datetime, timedelta

from research_exchange.capacity import RequeueDecision, check_capacity, requeue_decision, wall_used
from research_exchange.documents.fields import is_number
from research_exchange.feasibility import check_feasibility
from research_exchange.server.views import RunView
from research_exchange.store import QueueRecord, SessionRecord, Writer

AUTOMATIC = "exchange"
"""Who put a run into the queue that nobody was asked about."""


def requeue_by_itself(writer: Writer, view: RunView, at: datetime) -> QueueRecord | None:
    """Queue a run for a fresh session where the rules let it start again; a person decides everything else."""
    decision = decide(view, at)
    if decision.after is None or view.cancellation is not None:
        return None
    reason = f"The training service had no capacity. {decision.reason}"
    return writer.enqueue(view.run.id, at, reason, AUTOMATIC, at + timedelta(minutes=decision.after))


def decide(view: RunView, at: datetime) -> RequeueDecision:
    """What R-202 says of a run that has ended.

    Args:
        at: The present, for a session that has not ended.
    """
    budget = view.spec.section("budget").get("max_wall_minutes")
    projected = check_feasibility(view.spec, view.state).wall_seconds
    return requeue_decision(
        check_capacity(view.spec, view.state, view.updates),
        requeues=sum(entry.by == AUTOMATIC for entry in view.queue),
        budget=float(budget) if is_number(budget) else 0.0,
        used=minutes_used(view, at),
        needed=None if projected is None else projected / 60,
    )


def minutes_used(view: RunView, at: datetime) -> float:
    """Wall minutes of all sessions together, the waiting between them left out (R-200)."""
    sat = sum((_lasted(session, at) for session in view.sessions), timedelta())
    return max(sat, wall_used(view.updates)).total_seconds() / 60


def _lasted(session: SessionRecord, at: datetime) -> timedelta:
    """A clock that was set back makes a session short, never negative."""
    end = at if session.end is None else session.end.ended_at
    return max(end - session.started_at, timedelta())
