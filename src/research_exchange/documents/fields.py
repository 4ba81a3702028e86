"""Small questions about one JSON value, shared by every rule so that "number" means the same everywhere."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from research_exchange.documents.json import INT_MAX, INT_MIN, JsonValue

__all__ = [
    "as_list",
    "as_mapping",
    "at_path",
    "is_number",
    "is_same",
    "is_sha256",
    "is_size",
    "is_text",
    "is_whole",
    "show",
    "show_names",
]

_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_SHOWN = 60


def is_number(value: object) -> TypeGuard[int | float]:
    """A finite JSON number; booleans and numeric strings are none (R-068)."""
    if isinstance(value, float):
        return math.isfinite(value)
    return is_whole(value)


def is_whole(value: object) -> TypeGuard[int]:
    """A 64-bit integer; booleans are none."""
    return isinstance(value, int) and not isinstance(value, bool) and INT_MIN <= value <= INT_MAX


def is_size(value: object) -> TypeGuard[int | float]:
    """A finite number that is not below 0."""
    return is_number(value) and value >= 0


def is_text(value: object) -> TypeGuard[str]:
    """A string with something in it besides white space."""
    return isinstance(value, str) and bool(value.strip())


def is_sha256(value: object) -> TypeGuard[str]:
    """64 lower-case hexadecimal digits."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def is_same(value: JsonValue, other: JsonValue) -> bool:
    """JSON equality with types: 1 is 1.0, but neither "1" nor true."""
    if isinstance(value, str) or isinstance(other, str):
        return value == other
    if is_number(value) and is_number(other):
        return value == other
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(is_same(value[key], other[key]) for key in value)
    if isinstance(value, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(value) == len(other) and all(map(is_same, value, other))
    return type(value) is type(other) and value == other


def as_mapping(value: object) -> Mapping[str, JsonValue]:
    """The object itself, or an empty one where something else stands."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> Sequence[JsonValue]:
    """The array itself, or an empty one where something else stands."""
    return value if isinstance(value, (list, tuple)) else ()


def at_path(value: JsonValue, path: str) -> JsonValue:
    """What stands at a dotted path of keys, such as `eval.n_examples`; None where it leads nowhere."""
    for name in path.split("."):
        value = as_mapping(value).get(name)
    return value


def show(value: object) -> str:
    """A value as a reader of a problem sentence should see it: JSON, cut to one short piece."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "an empty object" if not value else f"an object of {len(value)} keys"
    if isinstance(value, (list, tuple)):
        return "an empty list" if not value else f"a list of {len(value)}"
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        return "a whole number beyond 64 bits"
    text = json.dumps(value[:_LONGEST_SHOWN] if isinstance(value, str) else value, ensure_ascii=False, default=repr)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def show_names(names: Sequence[str], limit: int = 5) -> str:
    """`"a", "b" and 3 more`."""
    shown = ", ".join(show(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
