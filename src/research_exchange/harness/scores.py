"""What an arm answered, item by item, in the rows that become evidence."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One item's answer and its grade."""

    item_id: str
    completion: str
    """The model's words, unparsed."""
    prediction: str
    reference: str
    value: float
    """In the metric's original units; for exact match 1 or 0."""


@dataclass(frozen=True)
class ArmScore:
    """One arm under one evaluator."""

    arm: str
    seed: int
    metric: str
    evaluator_id: str
    answers: tuple[Answer, ...]
    checkpoint: str | None = None

    @property
    def mean(self) -> float:
        """The unrounded mean over all items, so that it equals the mean of the observations (R-147)."""
        return math.fsum(answer.value for answer in self.answers) / len(self.answers)

    def score_row(self, predictions_ref: str) -> dict[str, Any]:
        """The arm's line in `evaluation.scores` (R-133)."""
        return {**self._identity, "value": self.mean, "predictions_ref": predictions_ref}

    def prediction_rows(self) -> list[dict[str, Any]]:
        """One row per item with what was asked, answered and expected (R-134, R-16B)."""
        return [
            {
                **self._identity,
                "item_id": answer.item_id,
                "completion": answer.completion,
                "prediction": answer.prediction,
                "reference": answer.reference,
                "value": answer.value,
                "checkpoint": self.checkpoint,
            }
            for answer in self.answers
        ]

    def observation_rows(self) -> list[dict[str, Any]]:
        """One row per item for the decision (R-141)."""
        return [{**self._identity, "item_id": answer.item_id, "value": answer.value} for answer in self.answers]

    @property
    def _identity(self) -> dict[str, Any]:
        return {"arm": self.arm, "seed": self.seed, "metric": self.metric, "evaluator_id": self.evaluator_id}


def jsonl(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as UTF-8 JSON lines, each ended by a newline; NaN and infinity raise `ValueError`."""
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows).encode()
