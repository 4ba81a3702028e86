"""The wall time that a run has left: its budget, less what its earlier sessions took (R-200)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from research_exchange.documents.fields import is_number
from research_exchange.documents.spec import Spec

__all__ = ["DEFAULT_WALL_MINUTES", "NoTimeLeft", "seconds_left"]

DEFAULT_WALL_MINUTES = 60.0
"""For a spec whose budget names no `max_wall_minutes`."""


class NoTimeLeft(Exception):
    """A run that used up its wall time; the text is one sentence."""


def seconds_left(spec: Spec, sessions: Sequence[Mapping[str, Any]]) -> float:
    """What a new session may take. Waiting between sessions does not count.

    Args:
        spec: With `budget.max_wall_minutes`.
        sessions: Of the run's record, `started_at`, `ended_at` and `last_seen` of each.

    Raises:
        NoTimeLeft: nothing is left.
    """
    minutes = spec.section("budget").get("max_wall_minutes")
    budget = 60.0 * (minutes if is_number(minutes) and minutes > 0 else DEFAULT_WALL_MINUTES)
    left = budget - sum(_seconds(session) for session in sessions)
    if left <= 0:
        raise NoTimeLeft(
            f"The run has used up its wall time of {budget / 60:g} minutes (budget.max_wall_minutes, R-200); "
            "another run starts with all of it."
        )
    return left


def _seconds(session: Mapping[str, Any]) -> float:
    """Of one that nobody ended: until its last sign of life, if there was one. A clock set back takes nothing."""
    started = session["started_at"]
    ended = session.get("ended_at") or session.get("last_seen") or started
    return max(0.0, (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds())
