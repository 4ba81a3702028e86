"""How single values read: numbers, sizes, times and JSON."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from research_exchange.documents.json import JsonValue

_MINUS = "\N{MINUS SIGN}"


def contrast_text(weights: Mapping[str, int | float]) -> str:
    """`trained − untrained`, or with factors where they are not 1."""
    terms: list[str] = []
    for arm, weight in weights.items():
        sign = _MINUS if weight < 0 else "+"
        factor = "" if abs(weight) == 1 else f"{number(abs(weight))} × "
        terms.append(f"{sign} {factor}{arm}" if terms or weight < 0 else f"{factor}{arm}")
    return " ".join(terms)


def number(value: float) -> str:
    """Four significant digits, whole numbers in full up to a million, a real minus sign."""
    whole = isinstance(value, int) or value.is_integer()
    text = f"{value:,.0f}" if whole and abs(value) < 1e6 else f"{value:.4g}"
    return text.replace("-", _MINUS)


def signed(value: float) -> str:
    """A difference: with its sign, to four decimals where it has any."""
    return f"{value:+.4g}".replace("-", _MINUS)


def size(count: int) -> str:
    """A number of bytes in the unit that suits it."""
    if count < 1024:
        return f"{count} B"
    if count < 1024 * 1024:
        return f"{count / 1024:.1f} KiB"
    return f"{count / 1024 / 1024:.1f} MiB"


def short(text: str) -> str:
    """A long name or hash by its ends."""
    return text if len(text) <= 28 else f"{text[:12]}…{text[-8:]}"


def clock(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def words(name: str) -> str:
    """A name of the contract as words: `activation_gate` reads as "Activation gate"."""
    return name.replace("_", " ").capitalize()


def value_text(value: JsonValue) -> str:
    """Any JSON value in one line."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def printable(text: str) -> str:
    """The text with a replacement for each control character, so that it cannot steer what shows it."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)


def document(value: JsonValue) -> str:
    """A part of a spec as it would be written, two spaces deep."""
    return json.dumps(value, indent=2, ensure_ascii=False)
