"""Generated tasks, and the evaluation set they are held against: one JSON object per line (R-191)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from research_exchange.documents.fields import as_mapping, is_text, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_ROWS

__all__ = [
    "MAX_ID",
    "MAX_PROMPT",
    "Disposition",
    "EvaluationItem",
    "GeneratedTask",
    "Rows",
    "read_evaluation",
    "read_tasks",
]

MAX_ID = 200
"""Characters of an item's id."""
MAX_PROMPT = 200_000
"""Characters of one prompt: more than any model reads, few enough to be compared at once."""

_Row = TypeVar("_Row")


class Disposition(StrEnum):
    """What became of a generated candidate."""

    ACCEPTED = "accepted"
    """Trained on."""
    REJECTED = "rejected"
    EXECUTION_ERROR = "execution_error"


class GeneratedTask(NamedTuple):
    """One candidate."""

    item_id: str
    prompt: str
    answer: JsonValue
    """The label; never None on an accepted task."""
    disposition: Disposition
    code: str | None
    """The generator's program, where it was kept."""


class EvaluationItem(NamedTuple):
    """One item of the held-out set."""

    item_id: str
    prompt: str


@dataclass(frozen=True)
class Rows(Generic[_Row]):
    """All rows of a file, or None where they cannot be read."""

    rows: tuple[_Row, ...] | None
    findings: Findings
    """Why they cannot; empty where they can."""


def read_tasks(rows: object, path: str) -> Rows[GeneratedTask]:
    """Reads the candidates of a dataset. Never raises; `path` says where they stand."""
    return _read(rows, path, _task_gaps, _task)


def read_evaluation(rows: object, path: str) -> Rows[EvaluationItem]:
    """Reads the items of an evaluation set. Never raises; `path` says where they stand."""
    return _read(rows, path, _item_gaps, _item)


class _Gap(NamedTuple):
    """One thing that a row lacks."""

    name: str
    expected: str
    found: str


def _read(
    rows: object,
    path: str,
    gaps_of: Callable[[Mapping[str, JsonValue]], list[_Gap]],
    record: Callable[[Mapping[str, JsonValue]], _Row],
) -> Rows[_Row]:
    findings = Findings()
    if not isinstance(rows, (list, tuple)) or not 0 < len(rows) <= MAX_ROWS:
        found = f"{len(rows)} rows" if isinstance(rows, (list, tuple)) else show(rows)
        findings.miss("R-191", path, f"a list of 1 to {MAX_ROWS} rows", found, _FREEZE)
        return Rows(None, findings)
    entries = [row if isinstance(row, dict) else as_mapping(row) for row in rows]
    for index, row in enumerate(entries):
        for gap in gaps_of(row):
            findings.miss("R-191", f"{path}[{index}].{gap.name}", gap.expected, gap.found, _FREEZE)
    return Rows(None if findings.problems else tuple(map(record, entries)), findings)


_FREEZE = "Write every row in full, and freeze the file under a new name."
_TEXTS = (("item_id", MAX_ID), ("prompt", MAX_PROMPT))
_DISPOSITIONS = {disposition.value: disposition for disposition in Disposition}


def _item_gaps(row: Mapping[str, JsonValue]) -> list[_Gap]:
    return [
        _Gap(name, f"a string of 1 to {most} characters", f"{len(value)} characters" if is_text(value) else show(value))
        for name, most in _TEXTS
        if not is_text(value := row.get(name)) or len(value) > most
    ]


def _task_gaps(row: Mapping[str, JsonValue]) -> list[_Gap]:
    gaps, disposition = _item_gaps(row), row.get("disposition")
    if not isinstance(disposition, str) or disposition not in _DISPOSITIONS:
        gaps.append(_Gap("disposition", f"one of {', '.join(_DISPOSITIONS)}", show(disposition)))
    elif disposition == Disposition.ACCEPTED and row.get("answer") is None:
        gaps.append(_Gap("answer", "the label of an accepted task", "nothing"))
    return gaps


def _item(row: Mapping[str, JsonValue]) -> EvaluationItem:
    return EvaluationItem(str(row["item_id"]), str(row["prompt"]))


def _task(row: Mapping[str, JsonValue]) -> GeneratedTask:
    code = row.get("code")
    return GeneratedTask(
        item_id=str(row["item_id"]),
        prompt=str(row["prompt"]),
        answer=row.get("answer"),
        disposition=_DISPOSITIONS[str(row["disposition"])],
        code=code if is_text(code) else None,
    )
