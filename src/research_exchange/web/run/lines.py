"""A JSON document line by line, each line with the place that rules call it by."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from research_exchange.documents.json import JsonValue
from research_exchange.web.run.inputs import anchor

MAX_LINES = 3000
"""That a page shows; the raw bytes have all."""
MAX_TEXT = 4000
"""Characters of one string that are shown."""


@dataclass(frozen=True)
class Line:
    id: str | None
    """Where a link to this place leads; None for a line that only closes what another one opened."""
    depth: int
    text: str


@dataclass(frozen=True)
class Lines:
    shown: tuple[Line, ...]
    is_cut: bool
    """There are more than are shown."""


def lines_of(document: JsonValue) -> Lines:
    found = tuple(islice(_lines(document, (), "", ""), MAX_LINES + 1))
    return Lines(found[:MAX_LINES], len(found) > MAX_LINES)


def _lines(value: JsonValue, way: tuple[str | int, ...], start: str, end: str) -> Iterator[Line]:
    depth, place = len(way), anchor(way) if way else None
    if isinstance(value, Mapping) and value:
        yield Line(place, depth, f"{start}{{")
        for number, (key, entry) in enumerate(value.items(), start=1):
            yield from _lines(entry, (*way, key), f"{_text(key)}: ", "," if number < len(value) else "")
        yield Line(None, depth, f"}}{end}")
    elif isinstance(value, (list, tuple)) and any(isinstance(entry, (Mapping, list, tuple)) for entry in value):
        yield Line(place, depth, f"{start}[")
        for number, entry in enumerate(value):
            yield from _lines(entry, (*way, number), "", "," if number + 1 < len(value) else "")
        yield Line(None, depth, f"]{end}")
    else:
        yield Line(place, depth, f"{start}{_text(value)}{end}")


def _text(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text)} characters)"
