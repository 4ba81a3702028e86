"""What a report is made of. Texts are plain: whoever writes them down as HTML or Markdown escapes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from research_exchange.presentation.figure import Figure

__all__ = [
    "Block",
    "Bullets",
    "Cell",
    "Code",
    "Command",
    "Facts",
    "Paragraph",
    "Picture",
    "Section",
    "Standing",
    "Table",
]


@dataclass(frozen=True)
class Code:
    """A name, an id or a hash, set as such."""

    text: str


@dataclass(frozen=True)
class Standing:
    """A word that says how something stands, with its colour."""

    text: str
    tone: str
    """A class of the stylesheet: good, bad, care or none."""


Cell: TypeAlias = str | Code | Standing


@dataclass(frozen=True)
class Paragraph:
    text: str
    tone: str = ""
    """A class of the stylesheet: lead, note, or estimate for a large number."""


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True)
class Command:
    """Something to type."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Names, each with its value."""

    pairs: Sequence[tuple[str, Cell]]


@dataclass(frozen=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: frozenset[int] = frozenset()
    """The columns that hold numbers."""
    title: str = ""
    """Says what is in it where no heading does."""
    is_folded: bool = False
    """Long, and behind its title until somebody asks for it; Markdown leaves it out."""


@dataclass(frozen=True)
class Picture:
    """A figure, which Markdown keeps in a file of its own."""

    name: str
    """Of that file."""
    figure: Figure


Block: TypeAlias = Paragraph | Bullets | Command | Facts | Table | Picture


@dataclass(frozen=True)
class Section:
    name: str
    """Of the place in the page; ours, never a runner's."""
    title: str
    blocks: Sequence[Block]
    level: int = 2
