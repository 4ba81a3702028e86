"""The base run of the vectors, changed by JSON Patch: for tests that hold one thing against another."""

import json
from typing import Any

from research_exchange.documents import EvidenceFile
from research_exchange.judgment import Judgment, judge
from tests.research_exchange.rules.support import file_of, patched, spec_of, updates_of, vectors

__all__ = ["BASE", "EVALUATOR", "FINAL", "PREDICTED", "add", "flags", "judged", "replace"]

BASE = vectors("runs")["base"]
FINAL = "/updates/2"
PREDICTED = [json.loads(line) for line in BASE["evidence"][0]["content"].splitlines()]
(EVALUATOR,) = BASE["updates"][2]["evaluation"]["evaluators"]


def predictions(rows: list[Any]) -> EvidenceFile:
    return file_of("predictions.jsonl", "predictions", "".join(json.dumps(row) + "\n" for row in rows))


def judged(
    *operations: dict[str, Any], rows: list[Any] = PREDICTED, more: tuple[EvidenceFile, ...] = (), **options: Any
) -> Judgment:
    bundle = patched(BASE, operations)
    return judge(spec_of(bundle["spec"]), updates_of(bundle["updates"]), [predictions(rows), *more], **options)


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def flags(judgment: Judgment, rule: str) -> list[str]:
    return [flag.text for flag in judgment.flags if flag.rule == rule]
