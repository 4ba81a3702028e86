"""How much of a document is looked at: what is far beyond any honest one is counted and left alone."""

from collections.abc import Sequence
from typing import TypeVar

from research_exchange.documents.gates import Problem

__all__ = ["first"]

_Entry = TypeVar("_Entry")


def first(entries: Sequence[_Entry], most: int, path: str, rule: str, gaps: list[Problem]) -> Sequence[_Entry]:
    """The first entries; where there are more than `most`, a problem says so."""
    if len(entries) > most:
        gaps.append(Problem(rule, path, f"at most {most}", f"{len(entries)}", "Keep what the run needs."))
    return entries[:most]
