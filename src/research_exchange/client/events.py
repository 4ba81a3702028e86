"""What happens to a run, as it happens: server-sent events, taken up again where they broke off."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

from research_exchange.client.connection import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Connection, Json
from research_exchange.client.errors import ExchangeUnreachable

__all__ = ["Event", "follow"]

SILENCE_SECONDS = 60.0
"""Without even a comment for so long, the other side is taken for gone; an Exchange gives a sign more often."""


@dataclass(frozen=True)
class Event:
    """One thing that happened."""

    id: str
    """Its place among the events of its run."""
    kind: str
    """update, evidence, session, session_end, queued, cancelled or outcome."""
    data: Json


def follow(connection: Connection, path: str, *, after: str | None = None) -> Iterator[Event]:
    """Every event once, in order, for as long as somebody reads them.

    When the connection breaks, it is made anew and goes on after the last event that came.

    Raises:
        ExchangeRefused: there is no such run, or it is not for this token to read.
        ExchangeUnreachable: no Exchange answers within the connection's patience.
    """
    away_since, pause = None, FIRST_PAUSE_SECONDS
    while True:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": after} if after else {})}
        try:
            with connection.stream(path, headers, silence_seconds=SILENCE_SECONDS) as answer:
                away_since, pause = None, FIRST_PAUSE_SECONDS
                for event in _events(answer.iter_lines()):
                    if event.id:
                        after = event.id
                    yield event
        except ExchangeUnreachable:
            now = time.monotonic()
            away_since = now if away_since is None else away_since
            if now + pause > away_since + connection.patience:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _events(lines: Iterator[str]) -> Iterator[Event]:
    """The events in a stream of lines (WHATWG HTML, "Interpreting an event stream"); comments are passed over."""
    fields: dict[str, list[str]] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                kind = fields.get("event", ["message"])[-1]
                yield Event(fields.get("id", [""])[-1], kind, json.loads("\n".join(fields["data"])))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
