"""A run in one JSON document: everything that a judgment is a function of, to be written, kept and passed on by hand.

`{"spec": {…}, "updates": [{…}, …], "evidence": [{"name", "kind", "content" | "content_base64"}], "ended"?: "why"}`
"""

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from research_exchange.documents.evidence import EvidenceFile
from research_exchange.documents.fields import is_text, is_whole, show, show_names
from research_exchange.documents.json import DocumentError, JsonValue, parse
from research_exchange.documents.spec import Spec
from research_exchange.documents.update import StoredUpdate

__all__ = ["RunDocument", "evidence_file", "numbered_updates"]

_FIELDS = ("spec", "updates", "evidence", "ended")
_UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Of receipt: a run document keeps the order of updates and no clock."""


@dataclass(frozen=True)
class RunDocument:
    """What `judgment.judge` takes, in its order."""

    spec: Spec
    updates: tuple[StoredUpdate, ...]
    evidence: tuple[EvidenceFile, ...]
    ended: str | None = None
    """Why the last session ended without a final update (R-067); None where one goes on, or posted one."""

    @classmethod
    def parse(cls, raw: bytes) -> "RunDocument":
        """Reads a run document. What its updates say is not looked at: that is the rules' business.

        A spec or an update may also stand as a string: its very bytes, hash, spelling mistakes and all.

        Raises:
            DocumentError: if the bytes are no run document; the message is one sentence that says what and where.
        """
        document = parse(raw)
        if not isinstance(document, Mapping):
            raise DocumentError(f"A run document is a JSON object; this is {show(document)}.")
        unknown = [name for name in document if name not in _FIELDS]
        if unknown:
            raise DocumentError(f"A run document has {', '.join(_FIELDS)} and no {show_names(unknown)}.")
        if "spec" not in document:
            raise DocumentError("A run document has a spec; there is none.")
        ended = document.get("ended")
        if ended is not None and not is_text(ended):
            raise DocumentError(f"ended says in words why the run ended; found {show(ended)}.")
        return cls(
            spec=Spec.parse(_bytes_of(document["spec"])),
            updates=numbered_updates([_bytes_of(update) for update in _list(document, "updates")]),
            evidence=_files(_list(document, "evidence")),
            ended=ended,
        )


def numbered_updates(bodies: Sequence[bytes]) -> tuple[StoredUpdate, ...]:
    """Posted bytes, numbered from 1 in the order given."""
    return tuple(StoredUpdate(number, _UNKNOWN_TIME, raw) for number, raw in enumerate(bodies, start=1))


def evidence_file(entry: Mapping[str, JsonValue], content: bytes | None, path: str) -> EvidenceFile:
    """A retained file from its record `{"name", "kind", "sha256"?, "update"?, "after"?}` and its bytes.

    A recorded hash stays as it is: bytes without it, and bytes that are gone (None), count as lost wherever a rule
    reads them (R-16C).

    Raises:
        DocumentError: if the record is incomplete; `path` says where it stands.
    """
    name, kind = entry.get("name"), entry.get("kind")
    if not is_text(name) or not is_text(kind):
        raise DocumentError(f"{path} needs a name and a kind; found {show(name)} and {show(kind)}.")
    update, after, digest = entry.get("update"), entry.get("after"), entry.get("sha256")
    if update is not None and not (is_whole(update) and update > 0):
        raise DocumentError(f"{path}.update is the number of an update, from 1; found {show(update)}.")
    if after is not None and not (is_whole(after) and after >= 0):
        raise DocumentError(f"{path}.after is the number of an update, or 0; found {show(after)}.")
    if digest is not None and not isinstance(digest, str):
        raise DocumentError(f"{path}.sha256 is a string; found {show(digest)}.")
    return EvidenceFile(
        name=name,
        kind=kind,
        sha256=sha256(content or b"").hexdigest() if digest is None else digest,
        size=len(content or b""),
        update=update if is_whole(update) else None,
        content=lambda: _kept(content),
        after=after if is_whole(after) else update - 1 if is_whole(update) else 0,
    )


def _kept(content: bytes | None) -> bytes:
    if content is None:
        raise FileNotFoundError
    return content


def _bytes_of(value: JsonValue) -> bytes:
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()


def _list(document: Mapping[str, JsonValue], name: str) -> Sequence[JsonValue]:
    value = document.get(name, [])
    if not isinstance(value, list):
        raise DocumentError(f"{name} is a list; found {show(value)}.")
    return value


def _files(entries: Sequence[JsonValue]) -> tuple[EvidenceFile, ...]:
    files = [_file(entry, f"evidence[{index}]") for index, entry in enumerate(entries)]
    twice = [name for name, count in Counter(file.name for file in files).items() if count > 1]
    if twice:
        raise DocumentError(f"evidence holds {show_names(twice)} twice; a run keeps one file of a name.")
    return tuple(files)


def _file(entry: JsonValue, path: str) -> EvidenceFile:
    if not isinstance(entry, Mapping):
        raise DocumentError(f"{path} is an object; found {show(entry)}.")
    return evidence_file(entry, _content(entry, path), path)


def _content(entry: Mapping[str, JsonValue], path: str) -> bytes:
    text, encoded = entry.get("content"), entry.get("content_base64")
    if isinstance(text, str) and encoded is None:
        return text.encode()
    if isinstance(encoded, str) and text is None:
        try:
            return b64decode(encoded, validate=True)
        except ValueError:
            raise DocumentError(f"{path}.content_base64 is not base64.") from None
    found = "both" if text is not None and encoded is not None else "neither as a string"
    raise DocumentError(f"{path} has exactly one of content and content_base64; found {found}.")
