"""Prediction files: one row per item and arm, failures included (R-134, R-16B)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard

from research_exchange.documents.evidence import EvidenceShelf
from research_exchange.documents.fields import is_number
from research_exchange.documents.json import DocumentError, JsonValue, parse_lines

__all__ = ["PredictionFiles", "Predictions", "read_predictions"]


@dataclass(frozen=True)
class Predictions:
    """The rows of a file up to the first that cannot be read."""

    rows: tuple[Mapping[str, JsonValue], ...]
    bad_line: int | None = None
    """Counted from 1; None where every line is a row."""

    def of(self, arm: str, metric: str, evaluator: str, seed: int | None) -> list[Mapping[str, JsonValue]]:
        """The rows behind one score; those under another evaluator or of another seed do not count."""
        by_seed = self._by_evaluator.get((arm, metric, evaluator), {})
        return [*by_seed.get(None, ()), *(() if seed is None else by_seed.get(seed, ()))]

    @cached_property
    def unlabelled(self) -> frozenset[str]:
        """Arms with rows that leave out their metric or evaluator, and so are behind no score."""
        return frozenset(
            str(row["arm"]) for row in self.rows if row.get("metric") is None or row.get("evaluator_id") is None
        )

    @cached_property
    def _by_evaluator(self) -> dict[tuple[str, str, str], dict[int | float | None, list[Mapping[str, JsonValue]]]]:
        """Arm, metric and evaluator to their rows, by seed; a row without one of the three is behind no score."""
        rows: dict[tuple[str, str, str], dict[int | float | None, list[Mapping[str, JsonValue]]]] = {}
        for row in self.rows:
            arm, metric, evaluator, seed = row["arm"], row.get("metric"), row.get("evaluator_id"), row.get("seed")
            is_named = isinstance(arm, str) and isinstance(metric, str) and isinstance(evaluator, str)
            if is_named and (seed is None or is_number(seed)):
                rows.setdefault((str(arm), str(metric), str(evaluator)), {}).setdefault(seed, []).append(row)
        return rows


def read_predictions(content: bytes) -> Predictions:
    """Reads JSON Lines whose rows have `item_id`, `arm`, `prediction` and `reference`. Never raises."""
    rows: list[Mapping[str, JsonValue]] = []
    try:
        for row in parse_lines(content):
            if not _is_prediction(row):
                return Predictions(tuple(rows), len(rows) + 1)
            rows.append(row)
    except DocumentError:
        return Predictions(tuple(rows), len(rows) + 1)
    return Predictions(tuple(rows))


class PredictionFiles:
    """A run's prediction files; each is read at most once."""

    def __init__(self, shelf: EvidenceShelf) -> None:
        self.shelf = shelf
        self._read: dict[str, Predictions] = {}

    def read(self, name: str) -> Predictions:
        """Raises `EvidenceLost` like the shelf."""
        if name not in self._read:
            self._read[name] = read_predictions(self.shelf.read(name))
        return self._read[name]


def _is_prediction(row: JsonValue) -> TypeGuard[dict[str, JsonValue]]:
    if not isinstance(row, dict) or "prediction" not in row or "reference" not in row:
        return False
    item, arm = row.get("item_id"), row.get("arm")
    return isinstance(item, str) and isinstance(arm, str) and bool(item.strip() and arm.strip())
