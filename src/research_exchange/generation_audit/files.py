"""The frozen files that a run's audits name, each read at most once (R-191)."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TypeVar

from research_exchange.documents.evidence import EvidenceLost, EvidenceShelf
from research_exchange.documents.fields import show
from research_exchange.documents.findings import Findings
from research_exchange.documents.generated_tasks import (
    Disposition,
    EvaluationItem,
    GeneratedTask,
    Rows,
    read_evaluation,
    read_tasks,
)
from research_exchange.documents.json import DocumentError, JsonValue, parse_lines
from research_exchange.documents.observations import MAX_ROWS
from research_exchange.generation_audit.prompts import prompt_key

__all__ = ["AuditFiles"]

_Row = TypeVar("_Row")


class AuditFiles:
    """Datasets and evaluation sets by file name. None, where a report names no file, has no rows and no finding."""

    def __init__(self, shelf: EvidenceShelf) -> None:
        self.shelf = shelf
        self._tasks: dict[str | None, Rows[GeneratedTask]] = {None: Rows(None, Findings())}
        self._accepted: dict[str | None, Mapping[str, GeneratedTask]] = {}
        self._evaluations: dict[str | None, Rows[EvaluationItem]] = {None: Rows(None, Findings())}
        self._held_out: dict[str | None, frozenset[bytes] | None] = {}

    def tasks(self, name: str | None) -> Rows[GeneratedTask]:
        """The candidates in a dataset."""
        if name not in self._tasks:
            self._tasks[name] = self._read(str(name), "generation_audit.dataset_file", read_tasks)
        return self._tasks[name]

    def accepted(self, name: str | None) -> Mapping[str, GeneratedTask]:
        """A dataset's accepted tasks by id; empty where it cannot be read."""
        if name not in self._accepted:
            tasks = self.tasks(name).rows or ()
            self._accepted[name] = {task.item_id: task for task in tasks if task.disposition is Disposition.ACCEPTED}
        return self._accepted[name]

    def evaluation(self, name: str | None) -> Rows[EvaluationItem]:
        """The items of an evaluation set."""
        if name not in self._evaluations:
            self._evaluations[name] = self._read(str(name), "generation_audit.evaluation_file", read_evaluation)
        return self._evaluations[name]

    def held_out(self, name: str | None) -> frozenset[bytes] | None:
        """The keys of an evaluation set's prompts; None where it cannot be read."""
        if name not in self._held_out:
            items = self.evaluation(name).rows
            self._held_out[name] = None if items is None else frozenset(prompt_key(item.prompt) for item in items)
        return self._held_out[name]

    def sha256(self, name: str | None) -> str | None:
        """The hash of a retained file; None where there is none of that name."""
        file = None if name is None else self.shelf.find(name)
        return None if file is None else file.sha256

    def _read(self, name: str, path: str, read: Callable[[list[JsonValue], str], Rows[_Row]]) -> Rows[_Row]:
        findings = Findings()
        file = self.shelf.find(name)
        if file is None or file.kind != "generated_tasks":
            found = f"no file {show(name)}" if file is None else f"one of kind {file.kind}"
            action = "Attach it as kind generated_tasks, before the sample is selected."
            findings.miss("R-191", path, "a retained file of kind generated_tasks", found, action)
            return Rows(None, findings)
        try:
            return read(list(islice(parse_lines(self.shelf.read(name)), MAX_ROWS + 1)), path)
        except EvidenceLost as lost:
            action = "Attach the file again, renamed."
            findings.miss("R-16C", path, "the bytes that were accepted", str(lost), action)
        except DocumentError as error:
            action = "Write one object in each line, and attach the file under a new name."
            findings.miss("R-191", path, "strict UTF-8 JSON Lines", f"this: {error}", action)
        return Rows(None, findings)
