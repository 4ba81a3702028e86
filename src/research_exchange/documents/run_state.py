"""The current state of a run: what a fold over its updates leaves standing (R-060, R-065)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from research_exchange.documents.evaluation import Evaluation, parse_evaluation
from research_exchange.documents.gates import Flag
from research_exchange.documents.json import JsonValue
from research_exchange.documents.spec import BASE_ARM

__all__ = ["DEFINITIVE", "MetricHistory", "MetricValue", "OutcomeReason", "Posted", "RunState", "RunStatus", "Verdict"]


class RunStatus(StrEnum):
    """How far the execution is; it says nothing about the science (R-071)."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Verdict(StrEnum):
    """What a finished run says about its criterion (R-062)."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


DEFINITIVE = frozenset({Verdict.SUPPORTED, Verdict.REFUTED})


class OutcomeReason(StrEnum):
    """Why a verdict came out as it did (R-064)."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    TIE = "tie"
    """A completed comparison inside the spec's tie band."""
    MIXED_CRITERIA = "mixed_criteria"
    """Some criteria pass, others fail."""
    INSUFFICIENT_EVIDENCE = "insufficient_evidence"
    """The uncertainty is too large."""
    INCOMPLETE_EXECUTION = "incomplete_execution"
    """Required execution or evaluation did not finish."""


class MetricValue(NamedTuple):
    """A tuple, since a run has many: made in a third of the time, and nothing that is collected as garbage."""

    value: int | float
    update: int
    """The update that posted it first."""


@dataclass(frozen=True)
class MetricHistory:
    """Every value a metric ever had, oldest first; a value repeated by the next update counts once."""

    values: tuple[MetricValue, ...]

    @property
    def latest(self) -> MetricValue:
        return self.values[-1]

    @property
    def revised(self) -> bool:
        return len(self.values) > 1


@dataclass(frozen=True)
class Posted:
    """One structured part of an update, such as `evaluation`, with the update it came in."""

    update: int
    value: JsonValue


@dataclass(frozen=True)
class RunState:
    """The fold of a run's updates. Nothing posted is lost: histories only grow."""

    status: RunStatus = RunStatus.RUNNING
    final_update: int | None = None
    """The update that ended the run; later ones change nothing (R-070)."""
    last_update: int = 0
    """The newest update, late and malformed ones included; 0 before the first."""
    summary: str | None = None
    verdict: Verdict | None = None
    """As reported by the final update; None while running, and where it was missing or invalid."""
    outcome_reason: OutcomeReason | None = None
    capacity_block: JsonValue = None
    metrics: Mapping[str, MetricHistory] = field(default_factory=dict)
    arms: Mapping[str, Mapping[str, MetricHistory]] = field(default_factory=dict)
    completed_arms: Mapping[str, int] = field(default_factory=dict)
    """Arm name to the update that first listed it."""
    posted: Mapping[str, tuple[Posted, ...]] = field(default_factory=dict)
    """Per structured part, everything posted for it, oldest first."""
    flags: tuple[Flag, ...] = ()

    @property
    def is_final(self) -> bool:
        return self.final_update is not None

    @property
    def completed_comparison(self) -> dict[str, int]:
        """The completed arms without the base model, which is scored before anything trains (R-069)."""
        return {arm: update for arm, update in self.completed_arms.items() if arm != BASE_ARM}

    def latest(self, part: str) -> Posted | None:
        """The newest posting of a structured part, such as `decision`."""
        history = self.posted.get(part, ())
        return history[-1] if history else None

    @cached_property
    def evaluations(self) -> tuple[tuple[int, Evaluation], ...]:
        """Every `evaluation` with the update it came in, oldest first, parsed once."""
        return tuple((posted.update, parse_evaluation(posted.value)) for posted in self.posted.get("evaluation", ()))

    @property
    def evaluation(self) -> Evaluation:
        """The newest one; an empty one where none was posted."""
        return self.evaluations[-1][1] if self.evaluations else parse_evaluation(None)

    def to_json(self) -> dict[str, JsonValue]:
        """The state as JSON; structured parts appear by update number, their content stays in the updates."""
        return {
            "status": self.status.value,
            "final_update": self.final_update,
            "last_update": self.last_update,
            "summary": self.summary,
            "verdict": self.verdict,
            "outcome_reason": self.outcome_reason,
            "capacity_block": self.capacity_block,
            "metrics": _histories(self.metrics),
            "arms": {arm: _histories(metrics) for arm, metrics in self.arms.items()},
            "completed_arms": dict(self.completed_arms),
            "posted": {part: [entry.update for entry in history] for part, history in self.posted.items()},
            "flags": [{"rule": flag.rule, "update": flag.update, "text": flag.text} for flag in self.flags],
        }


def _histories(metrics: Mapping[str, MetricHistory]) -> dict[str, JsonValue]:
    return {
        name: {
            "value": history.latest.value,
            "update": history.latest.update,
            "revised": history.revised,
            "history": [{"value": value.value, "update": value.update} for value in history.values],
        }
        for name, history in metrics.items()
    }
