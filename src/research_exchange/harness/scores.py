"""What an arm answered, item by item, in the rows and files that become evidence."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from research_exchange.evidence import MAX_FILE_BYTES
from research_exchange.harness.rows import chunks, jsonl

__all__ = ["Answer", "ArmScore", "EvidenceFile"]


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
    further: Mapping[str, float] = field(default_factory=dict)
    """Further metrics of the same completion, by name."""
    prompt: str = ""
    """The item's question, as an audit of generated tasks looks for it (R-195); left out of the rows if empty."""

    @property
    def words(self) -> dict[str, str]:
        """What was asked and answered, as it stands in a row."""
        asked = {"prompt": self.prompt} if self.prompt else {}
        return {**asked, "completion": self.completion}


@dataclass(frozen=True)
class EvidenceFile:
    """Bytes to be retained."""

    name: str
    kind: str
    content: bytes


@dataclass(frozen=True)
class ArmScore:
    """One arm of one seed under one evaluator."""

    arm: str
    seed: int | None
    """None for what no seed belongs to, such as the base model."""
    metric: str
    """What the values of the answers are."""
    evaluator_id: str
    answers: tuple[Answer, ...]
    checkpoint: str | None = None

    @property
    def mean(self) -> float:
        """The unrounded mean of the metric over all items, so that it equals the mean of the observations (R-147)."""
        return self.means[self.metric]

    @property
    def means(self) -> dict[str, float]:
        """The same of every metric."""
        return {
            metric: math.fsum(_value(answer, metric, self.metric) for answer in self.answers) / len(self.answers)
            for metric in self.metrics
        }

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric, then the further ones."""
        return (self.metric, *(self.answers[0].further if self.answers else ()))

    def score_rows(self) -> list[dict[str, Any]]:
        """The arm's lines in `evaluation.scores`, one for each metric (R-133)."""
        return [
            {**self._identity(metric), "value": mean, "predictions_ref": self.predictions_name}
            for metric, mean in self.means.items()
        ]

    @property
    def predictions_name(self) -> str:
        """The file of the predictions; another evaluator has another one, because names are for good (R-164)."""
        return f"predictions-{self._label}.jsonl"

    def prediction_rows(self, *, completions: bool = True) -> Iterator[dict[str, Any]]:
        """One row per item and metric with what was answered and expected (R-134, R-16B).

        The words stand in the metric's own row. Rows of further metrics leave the prediction null: their grade follows
        from the whole completion, not from the parsed answer.
        """
        for answer in self.answers:
            row = {
                **self._identity(self.metric),
                "item_id": answer.item_id,
                "prediction": answer.prediction,
                "reference": answer.reference,
                "value": answer.value,
                "checkpoint": self.checkpoint,
            }
            yield row | answer.words if completions else row
            for metric, value in answer.further.items():
                yield row | {"metric": metric, "prediction": None, "value": value}

    def observation_rows(self, metrics: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
        """One row per item for the decision (R-141), of these metrics; None for all."""
        for metric in self.metrics:
            if metrics is None or metric in metrics:
                for answer in self.answers:
                    value = _value(answer, metric, self.metric)
                    yield {**self._identity(metric), "item_id": answer.item_id, "value": value}

    def files(self, limit: int = MAX_FILE_BYTES) -> list[EvidenceFile]:
        """The predictions in one file; completions that do not fit beside them in further files, as logs (R-163).

        Raises:
            ValueError: if the predictions do not fit without completions either.
        """
        whole = jsonl(self.prediction_rows())
        if len(whole) <= limit:
            return [EvidenceFile(self.predictions_name, "predictions", whole)]
        bare = jsonl(self.prediction_rows(completions=False))
        if len(bare) > limit:
            raise ValueError(
                f"The predictions of {self.arm} take {len(bare)} bytes, and a file at most {limit}; "
                "evaluate fewer items, or give the parser shorter answers."
            )
        rows = ({"item_id": answer.item_id, **answer.words} for answer in self.answers)
        pieces = enumerate(chunks(rows, limit), start=1)
        logs = [EvidenceFile(f"completions-{self._label}-{number}.jsonl", "log", piece) for number, piece in pieces]
        return [EvidenceFile(self.predictions_name, "predictions", bare), *logs]

    @property
    def _label(self) -> str:
        seed = "" if self.seed is None else f"-seed{self.seed}"
        return f"{quote(self.arm, safe=' ')}{seed}-{self.evaluator_id[:8]}"

    def _identity(self, metric: str) -> dict[str, Any]:
        return {"arm": self.arm, "seed": self.seed, "metric": metric, "evaluator_id": self.evaluator_id}


def _value(answer: Answer, metric: str, own: str) -> float:
    return answer.value if metric == own else answer.further[metric]
