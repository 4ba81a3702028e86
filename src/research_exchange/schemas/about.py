"""The words a typed definition uses to say what a type cannot: what a field means, and which values it takes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

__all__ = [
    "About",
    "Alpha",
    "AnyJson",
    "Count",
    "NonNegative",
    "Positive",
    "Sha256",
    "Text",
    "Version",
    "about",
    "one_of",
]


@dataclass(frozen=True, eq=False)
class About:
    """JSON Schema keywords that are added to a type's own."""

    keywords: Mapping[str, object] = field(default_factory=dict)


def about(text: str, **keywords: object) -> About:
    """What a field means, and keywords such as `minimum=0`."""
    return About({"description": text, **keywords})


def one_of(values: Iterable[str], text: str = "") -> About:
    """One of the words that the rules know."""
    return About(({"description": text} if text else {}) | {"enum": list(values)})


AnyJson = object
"""Any JSON value: a schema without keywords."""
Text = Annotated[str, About({"pattern": r"\S"})]
Sha256 = Annotated[str, About({"pattern": "^[0-9a-f]{64}$"})]
Count = Annotated[int, About({"minimum": 0})]
Positive = Annotated[float, About({"exclusiveMinimum": 0})]
NonNegative = Annotated[float, About({"minimum": 0})]
Alpha = Annotated[float, About({"exclusiveMinimum": 0, "exclusiveMaximum": 1})]
Version = Literal[1]
