"""The outcome of a run in large letters: what is recorded, what was reported, and what stands between the two."""

from collections.abc import Mapping

from research_exchange.documents.json import JsonValue
from research_exchange.presentation.banner import Banner, recorded_banner
from research_exchange.server import RunView
from research_exchange.store import RunPhase

_GOING_ON = frozenset({RunPhase.CREATED, RunPhase.QUEUED, RunPhase.RUNNING})


def banner(view: RunView, recorded: Mapping[str, JsonValue] | None, *, contradicted: bool) -> Banner:
    """
    Args:
        recorded: The judgment on record.
        contradicted: What the Exchange holds now leads to another verdict.
    """
    if recorded is None or recorded["recorded_verdict"] is None:
        return _waiting(view)
    return _again(view, recorded) if goes_on(view) else recorded_banner(recorded, contradicted=contradicted)


def goes_on(view: RunView) -> bool:
    """Whether somebody may still report: also after an outcome, where a run was queued again (R-202)."""
    return view.run.phase in _GOING_ON


def _waiting(view: RunView) -> Banner:
    label, count = "No verdict yet", view.state.last_update
    if not count:
        headline = "Waiting in the queue" if view.run.phase is RunPhase.QUEUED else "Not started"
        return Banner("running", label, headline, "Nothing has been posted yet.", None)
    updates = "1 update" if count == 1 else f"{count} updates"
    text = f"{updates} so far. A verdict is recorded with the final one."
    return Banner("running", label, "Running", text, None)


def _again(view: RunView, recorded: Mapping[str, JsonValue]) -> Banner:
    headline = "Waiting in the queue" if view.run.phase is RunPhase.QUEUED else "Running again"
    text = f"It stopped once, {recorded['recorded_verdict']}, and goes on in a fresh session. {recorded['explanation']}"
    return Banner("running", "No verdict yet", headline, text, None)
