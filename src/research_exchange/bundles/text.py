"""Records as the JSON text of a bundle, and back: the same record has one text, and a text that is read says it all."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from research_exchange.documents.fields import is_whole, show, show_names
from research_exchange.documents.json import DocumentError, JsonValue, parse

__all__ = ["decode", "moment_text", "record_text", "text_of"]

_Record = TypeVar("_Record")


def record_text(record: object) -> bytes:
    """The text of a record: frozen data classes of texts, whole numbers, moments, tuples and records."""
    return text_of(_encode(record))


def decode(kind: type[_Record], raw: bytes) -> _Record:
    """The record in a text.

    Raises:
        DocumentError: if it is not the text of such a record; the sentence says what and where.
    """
    record: _Record = _decode(kind, parse(raw), "")
    return record


def text_of(document: JsonValue) -> bytes:
    """How the documents of a bundle are written: two spaces deep, key order kept, in UTF-8."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def moment_text(at: datetime) -> str:
    """ISO 8601 in UTC, to the microsecond: how long a session took is part of a judgment (R-202)."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _encode(value: Any) -> JsonValue:
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, tuple):
        return [_encode(entry) for entry in value]
    if is_dataclass(value):
        return {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
    assert value is None or isinstance(value, (int, str)), f"{type(value).__name__} has no place in a record"
    return value


def _decode(kind: Any, value: JsonValue, path: str) -> Any:
    if get_origin(kind) is UnionType:
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
        return None if value is None else _decode(kind, value, path)
    if get_origin(kind) is tuple:
        entries = value if isinstance(value, list) else _refuse(path, "a list", value)
        return tuple(_decode(get_args(kind)[0], entry, f"{path}[{index}]") for index, entry in enumerate(entries))
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**_fields(kind, value, path))
    if kind is datetime:
        return _moment(value, path)
    if kind is int:
        return value if is_whole(value) else _refuse(path, "a whole number", value)
    return value if isinstance(value, str) else _refuse(path, "text", value)


def _fields(kind: Any, value: JsonValue, path: str) -> dict[str, Any]:
    members = value if isinstance(value, Mapping) else _refuse(path, "an object", value)
    hints = _hints(kind)
    if members.keys() != hints.keys():
        names = show_names(sorted(members.keys() ^ hints.keys()))
        raise DocumentError(f"{path or 'It'} has exactly the fields of a record; missing or unknown: {names}.")
    return {name: _decode(hint, members[name], f"{path}.{name}".lstrip(".")) for name, hint in hints.items()}


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _moment(value: JsonValue, path: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() != timedelta():
        _refuse(path, "a moment in UTC, such as 2026-01-01T12:00:00.000000Z", value)
    return moment


def _refuse(path: str, expected: str, found: JsonValue) -> NoReturn:
    raise DocumentError(f"{path or 'It'} is {expected}; found {show(found)}.")
