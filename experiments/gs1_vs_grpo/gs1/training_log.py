"""What every step of an arm measured, in a file that outlives an interruption."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from research_exchange.harness import jsonl

__all__ = ["TrainingLog"]


class TrainingLog:
    """One line a step. Steps after the checkpoint that a training goes on from are taken again, and their lines go."""

    def __init__(self, path: Path, arm: str, seed: int, *, done: int) -> None:
        self.path = path
        self._identity = {"arm": arm, "seed": seed}
        self.rows: list[dict[str, Any]] = [row for row in _whole_rows(path) if row["step"] <= done]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jsonl(self.rows))

    def add(self, step: int, signals: Mapping[str, float]) -> None:
        row = {**self._identity, "step": step, **signals}
        self.rows.append(row)
        with self.path.open("ab") as file:
            file.write(jsonl([row]))


def _whole_rows(path: Path) -> Iterator[dict[str, Any]]:
    """What a crash left of a line is left out."""
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)
