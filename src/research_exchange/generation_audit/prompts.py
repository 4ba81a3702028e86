"""Prompts that stand in two places: exact overlap after normalization, and no more than that (R-195).

It finds neither paraphrases nor what means the same.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TypedDict

from research_exchange.documents.generated_tasks import Disposition
from research_exchange.documents.json import JsonValue

__all__ = ["Overlap", "evaluation_overlap", "find_overlap", "normalized", "prompt_key"]

_MAX_MARKS = 30
"""Combining characters in a row that Unicode's stream-safe format allows (UAX #15)."""
_JOINER = "\u034f"
"""What that format puts between longer runs."""


class Overlap(TypedDict):
    """What `evaluation_overlap` finds; ids stand in the order of the tasks."""

    overlap_count: int
    """Accepted tasks whose prompt stands in the evaluation set."""
    overlap_ids: list[str]
    duplicate_count: int
    """Accepted tasks whose prompt an earlier accepted task has."""
    duplicate_ids: list[str]


def evaluation_overlap(
    tasks: Iterable[Mapping[str, JsonValue]], evaluation: Iterable[Mapping[str, JsonValue]]
) -> Overlap:
    """Which accepted tasks repeat a prompt of the evaluation set, or one another's.

    Args:
        tasks: Rows of a dataset with `item_id`, `prompt` and `disposition`; a row without a prompt is passed over.
        evaluation: Rows of the full evaluation set, with `prompt`.
    """
    accepted = [task for task in tasks if task.get("disposition") == Disposition.ACCEPTED]
    prompts = [(str(task.get("item_id")), prompt) for task in accepted if isinstance(prompt := task.get("prompt"), str)]
    held_out = {prompt_key(prompt) for item in evaluation if isinstance(prompt := item.get("prompt"), str)}
    return find_overlap(prompts, held_out)


def find_overlap(accepted: Iterable[tuple[str, str]], held_out: set[bytes]) -> Overlap:
    """The same for ids with their prompts, and the keys of the evaluation's prompts."""
    overlaps, duplicates, seen = [], [], set()
    for item_id, prompt in accepted:
        key = prompt_key(prompt)
        if key in held_out:
            overlaps.append(item_id)
        if key in seen:
            duplicates.append(item_id)
        seen.add(key)
    return Overlap(
        overlap_count=len(overlaps),
        overlap_ids=overlaps,
        duplicate_count=len(duplicates),
        duplicate_ids=duplicates,
    )


def prompt_key(prompt: str) -> bytes:
    """32 bytes that two prompts share exactly if they are the same once normalized."""
    return sha256(normalized(prompt).encode("utf-8", "surrogatepass")).digest()


def normalized(prompt: str) -> str:
    """NFKC, then case folded, then every run of white space one space, and none at the ends."""
    return " ".join(unicodedata.normalize("NFKC", _stream_safe(prompt)).casefold().split())


def _stream_safe(text: str) -> str:
    """Any text as it is, but for endless runs of combining marks: to sort one takes quadratic time, so it is cut."""
    if text.isascii():
        return text
    pieces, marks = [], 0
    for character in text:
        marks = marks + 1 if _is_mark(character) else 0
        if marks > _MAX_MARKS:
            pieces.append(_JOINER)
            marks = 1
        pieces.append(character)
    return "".join(pieces)


@lru_cache(maxsize=4096)
def _is_mark(character: str) -> bool:
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) != 0
