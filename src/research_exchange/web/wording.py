"""What changed in a text, word by word, with the words around it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

MOST_WORDS = 2_000
"""Of both texts together; beyond, a comparison takes longer than a page may."""
KEPT_WORDS = 12
"""Unchanged words that are shown on either side of a change."""


@dataclass(frozen=True)
class Passage:
    """Some words, and what became of them."""

    kind: str
    """kept, removed or added."""
    text: str


def changed_passages(before: str, after: str) -> list[Passage] | None:
    """What was removed and what was added, in order, with a few kept words around; None for texts too long to tell."""
    old, new = re.findall(r"\S+\s*", before), re.findall(r"\S+\s*", after)
    if len(old) + len(new) > MOST_WORDS:
        return None
    return list(_passages(old, new))


def _passages(old: list[str], new: list[str]) -> Iterator[Passage]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            yield Passage("kept", _shortened(old[a:b], is_first=a == 0, is_last=b == len(old)))
            continue
        if a < b:
            yield Passage("removed", "".join(old[a:b]))
        if c < d:
            yield Passage("added", "".join(new[c:d]))


def _shortened(words: list[str], *, is_first: bool, is_last: bool) -> str:
    head, tail = 0 if is_first else KEPT_WORDS, 0 if is_last else KEPT_WORDS
    if len(words) <= head + tail:
        return "".join(words)
    return "".join(words[:head]) + "… " + "".join(words[len(words) - tail :])
