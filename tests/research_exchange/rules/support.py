"""Builds runs out of plain JSON, for every test of the rules."""

import copy
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from research_exchange.documents import EvidenceFile, Spec, StoredUpdate
from research_exchange.judgment import Judgment, judge

VECTORS = Path(__file__).parents[2] / "vectors"
EXPERIMENTS = Path(__file__).parents[3] / "experiments"
START = datetime(2026, 1, 1, tzinfo=UTC)


def vectors(name: str) -> Any:
    """The content of `tests/vectors/{name}.json`."""
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))


def spec_of(value: Mapping[str, Any]) -> Spec:
    return Spec.parse(json.dumps(value).encode())


def updates_of(bodies: Sequence[Any]) -> list[StoredUpdate]:
    """Updates numbered from 1; a `bytes` body is posted as it is."""
    return [
        StoredUpdate(
            number, START + timedelta(minutes=number), body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        for number, body in enumerate(bodies, start=1)
    ]


def file_of(name: str, kind: str, content: bytes | str, update: int | None = None) -> EvidenceFile:
    raw = content.encode() if isinstance(content, str) else content
    return EvidenceFile(name, kind, sha256(raw).hexdigest(), len(raw), update, lambda: raw, after=(update or 1) - 1)


def judge_bundle(bundle: Mapping[str, Any], **options: Any) -> Judgment:
    """Judges `{"spec": …, "updates": […], "evidence": [{"name", "kind", "content"}]}`."""
    files = [file_of(file["name"], file["kind"], file["content"], file.get("update")) for file in bundle["evidence"]]
    return judge(spec_of(bundle["spec"]), updates_of(bundle["updates"]), files, **options)


def patched(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """JSON Patch (RFC 6902): add, replace, remove and copy."""
    result = copy.deepcopy(document)
    for operation in operations:
        *parents, key = _steps(operation["path"])
        target = _descend(result, parents)
        value = _descend(result, _steps(operation["from"])) if operation["op"] == "copy" else operation.get("value")
        _apply(target, key, operation["op"], copy.deepcopy(value))
    return result


def paths(value: Any, prefix: str = "") -> list[str]:
    """Every place in a document, as JSON pointers."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [(f"{prefix}/{str(key).replace('~', '~0').replace('/', '~1')}", child) for key, child in children]
    return [path for path, child in below for path in (path, *paths(child, path))]


def _apply(target: Any, key: str, operation: str, value: Any) -> None:
    index: Any = key if isinstance(target, dict) else len(target) if key == "-" else int(key)
    if operation == "remove":
        del target[index]
    elif isinstance(target, list) and operation in ("add", "copy"):
        target.insert(index, value)
    elif operation == "replace":
        assert isinstance(target, list) or index in target, f"{key} is not there to be replaced"
        target[index] = value
    else:
        target[index] = value


def _steps(path: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _descend(document: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        document = document[step if isinstance(document, dict) else int(step)]
    return document
