"""What happened to a run, a line for each thing, in a terminal."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from research_exchange.documents.fields import as_list, as_mapping, is_number
from research_exchange.terminal.live import update_lines
from research_exchange.terminal.words import VERDICT_STYLES, Json, literal

if TYPE_CHECKING:
    from research_exchange.client import Event

_MOMENTS = ("received_at", "recorded_at", "queued_at", "at")
_PLAIN = {"status", "summary", "metrics", "completed_arms", "verdict", "outcome_reason", "deviations"}
"""Parts that are told in other words, or together with the outcome."""


def log_lines(events: "Iterable[Event]") -> Iterator[Text]:
    """Each event as it comes, with the time of day (UTC); each day begins with its date."""
    day = ""
    for event in events:
        at = moment_of(event)
        if at[:10] != day:
            day = at[:10]
            yield literal(day, "dim")
        for line in _lines(event):
            yield Text.assemble(literal(f"{at[11:19]}  ", "dim"), line)


def moment_of(event: "Event") -> str:
    """When it happened, as the API writes it."""
    names = {"session": ("started_at",), "session_end": ("ended_at",)}.get(event.kind, _MOMENTS)
    return next((str(event.data[name]) for name in names if event.data.get(name)), " " * 19)


def _lines(event: "Event") -> list[Text]:
    data = event.data
    match event.kind:
        case "update":
            return _update(data)
        case "evidence":
            return [literal(f"Retained {data['name']} ({data['kind']}, {data['size']:,} bytes).")]
        case "session":
            return [literal(f"Session {data['id']} began ({data['runner']}).", "bold")]
        case "session_end":
            return [literal(f"Session {data['id']} ended. {data['reason']}", "bold")]
        case "queued":
            return [literal(f"Waits for a worker, not before {data['not_before'][11:19]}. {data['reason']}")]
        case "cancelled":
            return [literal(f"Cancelled by {data['by']}. {data['reason']}", "bold red")]
        case "outcome":
            verdict = data["recorded_verdict"] or "open"
            withheld = ", withheld" if data["withheld"] else ""
            return [Text.assemble("Recorded: ", literal(f"{verdict}{withheld}", VERDICT_STYLES.get(verdict, "dim")))]
        case _:
            return [literal(event.kind)]


def _update(update: Json) -> list[Text]:
    """What an update says; where it says nothing that fits a line, which parts it has."""
    if update.get("malformed"):
        return [literal(f"Update {update['sequence']} is malformed: {update['malformed']}", "yellow")]
    document = update["document"]
    if document is None:
        return [literal(f"Update {update['sequence']} has {update['size']:,} bytes.")]
    lines = update_lines(document) or _other_metrics(document)
    lines += _deviations(document)
    if parts := [name for name in document if name not in _PLAIN]:
        lines.append(f"Update {update['sequence']} reports {', '.join(parts)}.")
    if document.get("status") in ("succeeded", "failed"):
        reason = f" ({document['outcome_reason']})" if document.get("outcome_reason") else ""
        lines.append(f"Reported: {document['status']}, {document.get('verdict') or 'no verdict'}{reason}")
    return [literal(line) for line in lines or [f"Update {update['sequence']} says nothing new."]]


def _deviations(document: Json) -> list[str]:
    return [
        f"Deviates in {each.get('field')}: {each.get('original')} -> {each.get('effective')}"
        for each in map(as_mapping, as_list(document.get("deviations")))
    ]


def _other_metrics(document: Json) -> list[str]:
    numbers = [(name, value) for name, value in as_mapping(document.get("metrics")).items() if is_number(value)]
    return ["  ".join(f"{name} {value:g}" for name, value in numbers)] if numbers else []
