"""Prediction files: one row per item and arm, failures included (R-134, R-16B)."""

from collections.abc import Mapping
from dataclasses import dataclass

from research_exchange.documents.evidence import EvidenceShelf
from research_exchange.documents.fields import is_text
from research_exchange.documents.json import DocumentError, JsonValue, parse

__all__ = ["PredictionFiles", "Predictions", "read_predictions"]


@dataclass(frozen=True)
class Predictions:
    """The rows of a file up to the first that cannot be read."""

    rows: tuple[Mapping[str, JsonValue], ...]
    bad_line: int | None = None
    """Counted from 1; None where every line is a row."""

    def of(self, arm: str, metric: str, evaluator: str, seed: int | None) -> list[Mapping[str, JsonValue]]:
        """The rows behind one score; those under another evaluator or of another seed do not count."""
        wanted = (arm, metric, evaluator)
        return [
            row
            for row in self.rows
            if (row["arm"], row.get("metric"), row.get("evaluator_id")) == wanted and row.get("seed", seed) == seed
        ]


def read_predictions(content: bytes) -> Predictions:
    """Reads JSON Lines whose rows have `item_id`, `arm`, `prediction` and `reference`. Never raises."""
    rows: list[Mapping[str, JsonValue]] = []
    for number, line in enumerate(content.rstrip(b" \t\r\n").split(b"\n"), start=1):
        row = _read(line)
        if row is None:
            return Predictions(tuple(rows), number)
        rows.append(row)
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


def _read(line: bytes) -> Mapping[str, JsonValue] | None:
    try:
        row = parse(line)
    except DocumentError:
        return None
    if not isinstance(row, Mapping) or not {"prediction", "reference"} <= row.keys():
        return None
    return row if is_text(row.get("item_id")) and is_text(row.get("arm")) else None
