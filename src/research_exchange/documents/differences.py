"""What changed between two JSON documents, such as two versions of a spec (R-002): place by place, before and after."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from research_exchange.documents.fields import as_mapping, is_text, show
from research_exchange.documents.json import JsonValue
from research_exchange.documents.spec import Spec

__all__ = ["Change", "ChangeKind", "differences", "spec_diff"]

_MOST_COMPARED = 250_000
"""Pairs of entries that two lists are aligned over; longer ones are compared place by place."""


class ChangeKind(StrEnum):
    """What happened to a place."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    REORDERED = "reordered"
    """The same entries stand in another order: the keys of an object, or the entries of a list."""


@dataclass(frozen=True)
class Change:
    """One place that differs."""

    kind: ChangeKind
    path: str
    """`eval.n_examples`, `arms["grpo"].steps`, `tags[2]`; empty for the document as a whole.

    An entry of a list goes by its `name` or `id` where each has one, else by its number in the new document; what was
    removed goes by its number in the old one.
    """
    before: JsonValue
    """None where it was added."""
    after: JsonValue
    """None where it was removed."""

    def __str__(self) -> str:
        place = self.path or "the document"
        match self.kind:
            case ChangeKind.ADDED:
                return f"{place}: added {show(self.after)}"
            case ChangeKind.REMOVED:
                return f"{place}: removed {show(self.before)}"
            case ChangeKind.REORDERED:
                return f"{place}: the same entries in another order"
            case ChangeKind.CHANGED:
                return f"{place}: {show(self.before)} became {show(self.after)}"

    def to_json(self) -> dict[str, JsonValue]:
        """Its parts, and the sentence as `text`."""
        return {
            "kind": self.kind.value,
            "path": self.path,
            "before": self.before,
            "after": self.after,
            "text": str(self),
        }


def spec_diff(before: Spec, after: Spec) -> tuple[Change, ...]:
    """What a version says otherwise than another; nothing where they differ in spelling alone, such as white space."""
    return differences(before.value, after.value)


def differences(before: JsonValue, after: JsonValue) -> tuple[Change, ...]:
    """Every place that differs, in the order of the new document; what was removed stands where it would be missed.

    1 and 1.0 differ, for so do the bytes that a hash is taken over.
    """
    return tuple(_compare(before, after, ""))


def _compare(before: JsonValue, after: JsonValue, path: str) -> Iterator[Change]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _entries(before, after, path, lambda key: _member(path, key))
    elif isinstance(before, list) and isinstance(after, list):
        key = _name_of_entries(before, after)
        if key is None:
            yield from _lists(before, after, path)
        else:
            old, new = _by_name(before, key), _by_name(after, key)
            yield from _entries(old, new, path, lambda name: f"{path}[{_quoted(name)}]")
    elif _text(before) != _text(after):
        yield Change(ChangeKind.CHANGED, path, before, after)


def _entries(
    before: Mapping[str, JsonValue], after: Mapping[str, JsonValue], path: str, path_of: Callable[[str], str]
) -> Iterator[Change]:
    """The differences of what goes by names: an object, or a list of named entries."""
    for name, value in after.items():
        if name in before:
            yield from _compare(before[name], value, path_of(name))
        else:
            yield Change(ChangeKind.ADDED, path_of(name), None, value)
    for name, value in before.items():
        if name not in after:
            yield Change(ChangeKind.REMOVED, path_of(name), value, None)
    kept = [[name for name in names if name in before and name in after] for names in (before, after)]
    if kept[0] != kept[1]:
        yield Change(ChangeKind.REORDERED, path, kept[0], kept[1])


def _lists(before: Sequence[JsonValue], after: Sequence[JsonValue], path: str) -> Iterator[Change]:
    """The differences of entries without names: equal ones are found again wherever others came or went."""
    texts = list(map(_text, before)), list(map(_text, after))
    if texts[0] != texts[1] and sorted(texts[0]) == sorted(texts[1]):
        yield Change(ChangeKind.REORDERED, path, before, after)
        return
    for old, new in _blocks(*texts):
        paired = min(len(old), len(new))
        for was, now in zip(old[:paired], new[:paired], strict=True):
            yield from _compare(before[was], after[now], f"{path}[{now}]")
        for was in old[paired:]:
            yield Change(ChangeKind.REMOVED, f"{path}[{was}]", before[was], None)
        for now in new[paired:]:
            yield Change(ChangeKind.ADDED, f"{path}[{now}]", None, after[now])


def _blocks(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[range, range]]:
    """The stretches of two lists that differ, each as the places in one and in the other."""
    if len(before) * len(after) > _MOST_COMPARED:
        yield range(len(before)), range(len(after))
        return
    for tag, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield range(start, end), range(new_start, new_end)


def _text(value: JsonValue) -> str:
    """Equal where two values are, the order of keys included."""
    return json.dumps(value)


def _name_of_entries(*lists: Sequence[JsonValue]) -> str | None:
    """The key that names every entry of each list apart from the others; None where no key does."""
    for key in ("name", "id"):
        names = [[as_mapping(entry).get(key) for entry in entries] for entries in lists]
        if any(names) and all(all(map(is_text, each)) and len(set(map(str, each))) == len(each) for each in names):
            return key
    return None


def _by_name(entries: Sequence[JsonValue], key: str) -> dict[str, JsonValue]:
    return {str(as_mapping(entry)[key]): entry for entry in entries}


_PLAIN_KEY = re.compile(r"\w+")


def _member(path: str, key: str) -> str:
    if _PLAIN_KEY.fullmatch(key) is None:
        return f"{path}[{_quoted(key)}]"
    return f"{path}.{key}" if path else key


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
