"""The outcome of a run in large letters: what is recorded, what was reported, and what stands between the two."""

from collections.abc import Mapping
from dataclasses import dataclass

from research_exchange.documents.fields import as_list, as_mapping
from research_exchange.documents.json import JsonValue
from research_exchange.server import RunView
from research_exchange.store import RunPhase

_GOING_ON = frozenset({RunPhase.CREATED, RunPhase.QUEUED, RunPhase.RUNNING})


@dataclass(frozen=True)
class Banner:
    tone: str
    """A class of the stylesheet: supported, refuted, withheld, inconclusive, contradicted, running."""
    label: str
    headline: str
    explanation: str
    recorded: Mapping[str, JsonValue] | None
    """The judgment that the run ended with; None while it goes on."""
    objections: tuple[str, ...] = ()
    """What stands against a definitive verdict besides what `explanation` says."""


def banner(view: RunView, recorded: Mapping[str, JsonValue] | None, *, contradicted: bool) -> Banner:
    """
    Args:
        recorded: The judgment on record.
        contradicted: What the Exchange holds now leads to another verdict.
    """
    if recorded is None or recorded["recorded_verdict"] is None:
        return _waiting(view)
    return _again(view, recorded) if goes_on(view) else _recorded(recorded, contradicted=contradicted)


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


def _recorded(recorded: Mapping[str, JsonValue], *, contradicted: bool) -> Banner:
    verdict, withheld = str(recorded["recorded_verdict"]), recorded["withheld"]
    tone, label = verdict, "Recorded by the Exchange"
    if contradicted:
        tone, label = "contradicted", "Recorded by the Exchange, but no longer borne out"
    elif withheld:
        tone, label = "withheld", "Recorded by the Exchange, which withholds the reported verdict"
    objections = (str(as_mapping(each).get("text")) for each in as_list(recorded["withheld_because"]))
    return Banner(
        tone=tone,
        label=label,
        headline=verdict.capitalize(),
        explanation=str(recorded["explanation"]),
        recorded=recorded,
        objections=tuple(text for text in objections if text != recorded["explanation"]),
    )
