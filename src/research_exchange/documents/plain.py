"""Turns frozen records into plain JSON values, field by field."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum

from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue

__all__ = ["plain"]


def plain(value: object) -> JsonValue:
    """Records become objects, tuples lists, enums their values; a `Problem` also gets its sentence as `text`.

    A field of a record whose metadata say `{"json": False}` is for rules alone and left out.

    Raises:
        TypeError: for a value that JSON has no form for.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(entry) for entry in value]
    if is_dataclass(value):
        shown = [field.name for field in fields(value) if field.metadata.get("json", True)]
        record = {name: plain(getattr(value, name)) for name in shown}
        return {**record, "text": str(value)} if isinstance(value, Problem) else record
    raise TypeError(f"{type(value).__name__} has no JSON form.")
