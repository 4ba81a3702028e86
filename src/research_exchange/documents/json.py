"""A strict JSON reader: one meaning for one text (R-240), and one canonical text for one meaning (R-132).

The standard library's reader is lenient where two readers may disagree: duplicate keys, NaN, numbers beyond a
double, a byte order mark. Here each of these is refused with a sentence, so that whatever a rule sees, every
other reader of the same bytes sees too.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

__all__ = ["INT_MAX", "INT_MIN", "MAX_DEPTH", "DocumentError", "JsonValue", "canonical", "parse", "parse_lines"]

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"

MAX_DEPTH = 64
"""Objects and arrays inside one another."""
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
"""Whole numbers stay inside 64 bits: what every database and language can hold."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_INT = len(str(INT_MIN))


class DocumentError(ValueError):
    """The bytes are not the document they should be; the message is one sentence that says what and where."""


def parse(raw: bytes) -> JsonValue:
    """Reads one JSON document, key order kept.

    Raises:
        DocumentError: for a byte order mark, invalid UTF-8, lone surrogates, syntax errors, duplicate keys,
            NaN and Infinity, numbers no double or 64-bit integer can hold, and nesting deeper than `MAX_DEPTH`.
    """
    if raw.startswith(_BYTE_ORDER_MARK):
        raise DocumentError("The text starts with a byte order mark; send UTF-8 without one.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(f"Byte {error.start} is not valid UTF-8; send UTF-8 text.") from None
    try:
        value = cast("JsonValue", _DECODER.decode(text))
    except json.JSONDecodeError as error:
        raise DocumentError(f"Not JSON at line {error.lineno}, column {error.colno}: {error.msg}.") from None
    except RecursionError:
        raise _too_deep() from None
    if _may_be_deep(text):
        _check_depth(value)
    if _names_half(text):
        _check_surrogates(value)
    return value


def parse_lines(raw: bytes) -> Iterator[JsonValue]:
    """Reads JSON Lines, one document per line and each as strictly as `parse` does; white space at the end is left out.

    Raises:
        DocumentError: when it comes to the first line that `parse` would refuse; the sentence starts with its number.
    """
    raw = raw.rstrip(b" \t\r\n")
    try:
        lines = raw.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        yield from _one_by_one(raw.split(b"\n"), first=1)
        return
    for start in range(0, len(lines), _BLOCK):
        block = lines[start : start + _BLOCK]
        values = _parse_block(block)
        yield from _one_by_one(map(str.encode, block), first=start + 1) if values is None else values


def canonical(value: JsonValue) -> bytes:
    """The one text for a value: sorted keys, no spaces, ASCII; the form every hash of ours is taken over.

    Raises:
        ValueError: for NaN and infinities.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


_BLOCK = 1000
"""Lines that are read at once."""
_BREAK = object()


def _parse_block(lines: Sequence[str]) -> Sequence[JsonValue] | None:
    """Lines as one array, which is faster than one by one; None where each has to be looked at by itself.

    Between the lines stands the one word that no strict document has. It comes back between any two values exactly
    where every line is one value.
    """
    if not all(map(_is_plain, lines)):
        return None
    try:
        values = _BLOCK_DECODER.decode(f"[{',NaN,'.join(lines)}]")
    except (ValueError, RecursionError):
        return None
    breaks = values[1::2]
    if len(values) != 2 * len(lines) - 1 or breaks.count(_BREAK) != len(breaks):
        return None
    return cast("Sequence[JsonValue]", values[::2])


def _is_plain(line: str) -> bool:
    """Whether a line is neither too deep nor names half a character; a strict reading of its syntax is enough."""
    return not _may_be_deep(line) and not _names_half(line) and "NaN" not in line


def _break(name: str) -> object:
    return _BREAK if name == "NaN" else _constant(name)


def _one_by_one(lines: Iterable[bytes], first: int) -> Iterator[JsonValue]:
    for number, line in enumerate(lines, start=first):
        try:
            yield parse(line)
        except DocumentError as error:
            raise DocumentError(f"Line {number}: {error}") from None


def _may_be_deep(text: str) -> bool:
    """Whether a text opens enough objects and arrays for them to be nested too deeply."""
    return text.count("[") + text.count("{") > MAX_DEPTH


def _names_half(text: str) -> bool:
    """Whether an escape may name half a character; the other half may stand beside it."""
    return "\\u" in text and _SURROGATE.search(text) is not None


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    value = dict(pairs)
    if len(value) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise DocumentError(f"The key {json.dumps(twice[:80])} stands twice in one object; keep one of them.")
    return value


def _int(text: str) -> int:
    if len(text) <= _LONGEST_INT and INT_MIN <= (value := int(text)) <= INT_MAX:
        return value
    raise DocumentError(f"The whole number {_short(text)} does not fit into 64 bits; send it as a string.")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise DocumentError(f"The number {_short(text)} is beyond double precision; send it as a string.")
    return value


def _constant(text: str) -> float:
    raise DocumentError(f"{text} is not JSON; leave the value out or say what happened in words.")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_int, parse_float=_float, parse_constant=_constant)
_BLOCK_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_int, parse_float=_float, parse_constant=_break)


def _check_depth(value: JsonValue) -> None:
    layer = [value]
    for _ in range(MAX_DEPTH):
        layer = [child for parent in layer for child in _children(parent) if isinstance(child, (dict, list))]
        if not layer:
            return
    raise _too_deep()


def _check_surrogates(value: JsonValue) -> None:
    """An escape like `\\ud800` alone names half a character, which no UTF-8 text can hold."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            pending.extend(current)
        pending.extend(_children(current))
        if isinstance(current, str) and not current.isascii():
            try:
                current.encode("utf-8")
            except UnicodeEncodeError:
                raise DocumentError("A string holds half of a surrogate pair; send whole characters.") from None


def _children(value: JsonValue) -> Sequence[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _too_deep() -> DocumentError:
    return DocumentError(f"Objects and arrays are nested deeper than {MAX_DEPTH}; flatten the document.")


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:30]}… ({len(text)} characters)"
