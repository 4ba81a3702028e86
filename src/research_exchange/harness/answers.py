"""Answers that are kept as they come, so that an interrupted evaluation goes on where it was."""

import hashlib
import json
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from research_exchange.harness.rows import jsonl
from research_exchange.harness.work import replace_file

__all__ = ["KeptAnswers"]


class KeptAnswers:
    """The completions of one evaluator, arm, seed and checkpoint, one line in a file for each item.

    A line goes to the file as soon as its answer is there. What a crash left of a line is dropped, and its item asked
    again. With another evaluator, or another checkpoint, it is another file: nothing is ever taken over.
    """

    def __init__(
        self, folder: Path | None, *, evaluator_id: str, arm: str, seed: int | None, checkpoint: str | None
    ) -> None:
        """Without a folder they are kept in memory alone."""
        key = json.dumps([evaluator_id, arm, seed, checkpoint])
        self.path = folder and folder / f"answers-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsonl"
        self.completions = _read(self.path) if self.path else {}
        """Item id to completion, of what is there already."""
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        if self.path:
            rows = ({"item_id": item, "completion": completion} for item, completion in self.completions.items())
            replace_file(self.path, jsonl(rows))
            self._file = self.path.open("ab")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()

    def add(self, item_id: str, completion: str) -> None:
        """Keep one answer, at once."""
        if self._file:
            self._file.write(jsonl([{"item_id": item_id, "completion": completion}]))
            self._file.flush()
        self.completions[item_id] = completion


def _read(path: Path) -> dict[str, str]:
    found = {}
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            row = json.loads(line)
            found[str(row["item_id"])] = str(row["completion"])
        except (ValueError, TypeError, KeyError):
            continue
    return found
