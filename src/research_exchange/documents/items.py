"""A frozen list of items: their ids, or the name and hash of a manifest that holds them (R-131, R-151)."""

from collections.abc import Mapping
from dataclasses import dataclass
from unicodedata import normalize

from research_exchange.documents.fields import as_list, is_sha256, is_text
from research_exchange.documents.json import DocumentError, JsonValue, parse

__all__ = ["Manifest", "item_ids", "manifest_of", "read_manifest"]


_LONGEST_COMPARED = 200
"""Characters of an id in which compatible forms are one; in endless ones they would take long to find."""


@dataclass(frozen=True)
class Manifest:
    """A list of items kept as an evidence file."""

    name: str
    sha256: str


def item_ids(ids: JsonValue) -> tuple[str, ...] | None:
    """Different, non-empty strings; None for anything else, an empty list among it.

    Ids that differ in nothing a reader sees are one id: an easy item must not stand in a list under several spellings.
    """
    entries = as_list(ids)
    texts = tuple(item for item in entries if is_text(item))
    return texts if texts and len(texts) == len(entries) == len(set(map(_visible, texts))) else None


def _visible(item: str) -> str:
    """What is seen of an id: compatible forms are one, white space is one space, and hidden characters do not count."""
    if item.isascii() and item.isprintable() and " " not in item:
        return item
    text = normalize("NFKC", item) if len(item) <= _LONGEST_COMPARED else item
    return " ".join("".join(each for each in text if each.isprintable() or each.isspace()).split())


def manifest_of(items: Mapping[str, JsonValue]) -> Manifest | None:
    """The manifest that `items` refers to by `manifest_ref` and `manifest_sha256`; None where either is malformed."""
    name, digest = items.get("manifest_ref"), items.get("manifest_sha256")
    return Manifest(name, digest) if is_text(name) and is_sha256(digest) else None


def read_manifest(content: bytes) -> tuple[str, ...] | None:
    """The ids in a manifest: one JSON array of strings, or JSON Lines whose objects have an `item_id`. Never raises."""
    try:
        if content.lstrip().startswith(b"["):
            return item_ids(parse(content))
        rows = [parse(line) for line in content.rstrip(b" \t\r\n").split(b"\n")]
    except DocumentError:
        return None
    return item_ids([row.get("item_id") if isinstance(row, Mapping) else None for row in rows])
