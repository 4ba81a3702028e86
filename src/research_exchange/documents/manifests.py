"""The `adaptation_manifests` part of an update: the batches each arm really consumed in its shared steps (R-181)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from research_exchange.documents.fields import as_list, as_mapping, is_sha256, is_text, is_whole, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.json import JsonValue

__all__ = ["MANIFESTS", "Manifest", "Manifests", "batch_hash", "parse_manifests"]

MANIFESTS = "adaptation_manifests"
MAX_ENTRIES = 200
"""Of one report: far more than a run has arms."""

_RECORD = "Record the batches as the training loop consumes them."


def batch_hash(ids: Sequence[str]) -> str:
    """sha256 over `json.dumps` of the ids with its default separators, ", " between them (R-181)."""
    return sha256(json.dumps(list(ids)).encode()).hexdigest()


@dataclass(frozen=True)
class Manifest:
    """One arm's entry."""

    path: str
    arm: str
    pair: str
    """Arms of one pair consume the same batches in the same order."""
    warmup_batches: int
    """Of a phase that the arm has for itself, before the shared steps."""
    ids: tuple[str, ...]
    """In the order of consumption."""
    sha256: str
    """Recomputed from the ids."""


@dataclass(frozen=True)
class Manifests:
    """A parsed report; entries that cannot be read are left out and named in `findings`."""

    entries: tuple[Manifest, ...]
    findings: Findings


def parse_manifests(value: JsonValue) -> Manifests:
    """Reads a report. Never raises."""
    findings, entries = Findings(), as_list(value)
    if not 0 < len(entries) <= MAX_ENTRIES:
        expected = f"a list of entries, one for each training arm, at most {MAX_ENTRIES}"
        findings.miss("R-181", MANIFESTS, expected, show(value), _RECORD)
    found = [
        _manifest(as_mapping(entry), f"{MANIFESTS}[{index}]", findings)
        for index, entry in enumerate(entries[:MAX_ENTRIES])
    ]
    return Manifests(tuple(entry for entry in found if entry is not None), findings)


def _manifest(fields: Mapping[str, JsonValue], path: str, findings: Findings) -> Manifest | None:
    arm, pair, warmup = (fields.get(name) for name in ("arm", "pair", "warmup_batches"))
    ids, claimed = _ids(fields.get("adaptation_batch_ids")), fields.get("adaptation_batch_hash")
    checks = (
        ("arm", is_text(arm), "the name of an arm"),
        ("pair", is_text(pair), "the name of a pair"),
        ("warmup_batches", is_whole(warmup) and warmup >= 0, "a whole number of at least 0"),
        ("adaptation_batch_ids", ids is not None, "a list of strings"),
        ("adaptation_batch_hash", is_sha256(claimed), "64 lower-case hexadecimal digits"),
    )
    for name, holds, expected in checks:
        if not holds:
            findings.miss("R-181", f"{path}.{name}", expected, show(fields.get(name)), _RECORD)
    if ids == ():
        findings.miss("R-182", f"{path}.adaptation_batch_ids", "the ids of the batches", "an empty list", _RECORD)
    if not is_text(arm) or not is_text(pair) or not is_whole(warmup) or ids is None:
        return None
    recomputed = batch_hash(ids)
    if is_sha256(claimed) and claimed != recomputed:
        expected = f"{recomputed}, the hash of these ids"
        action = "Hash json.dumps(ids) with its default separators, and the ids in the order of consumption."
        findings.contradict("R-182", f"{path}.adaptation_batch_hash", expected, show(claimed), action)
    return Manifest(path, arm, pair, warmup, ids, recomputed)


def _ids(value: JsonValue) -> tuple[str, ...] | None:
    entries = as_list(value)
    ids = tuple(entry for entry in entries if isinstance(entry, str))
    return ids if isinstance(value, (list, tuple)) and len(ids) == len(entries) else None
