"""The record of what was found out, offline, after a gate stopped a run (R-127).

It tells three causes apart: code or instruments that are defective, a wrong reference or variant, and a regime in which
the treatment has nothing to act on. What speaks for each is kept beside it: inputs made so that the treatment has to
act, or must not; the loss inputs with their masks, by hash; how far the policy had drifted when it was looked at.
The Exchange stores and shows the record and draws nothing from it. Nothing here trains.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinker.types import Datum, ForwardBackwardOutput

from research_exchange.client import Evidence, GateReading, Run
from research_exchange.harness.fixed_inputs import Exhibit, logprobs

__all__ = ["Case", "Cause", "Diagnosis", "Drift", "Schedule", "deterministic_case", "policy_drift"]


class Cause(StrEnum):
    """Why the gate stopped the run, as far as it was found out."""

    DEFECT = "code_or_instrumentation_defect"
    WRONG_REFERENCE = "wrong_reference_or_variant"
    INACTIVE_REGIME = "inactive_regime"
    """The treatment works, and in this regime there is nothing for it to do."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Case:
    """An input on which it is certain what the treatment does."""

    name: str
    must_activate: bool
    activated: bool
    """Whether its gradient differs from that of the same path with the treatment off."""
    gradient_change: float
    """Largest difference of d loss / d logprob, with and without the treatment."""

    @property
    def holds(self) -> bool:
        return self.activated == self.must_activate


Derivative = Callable[[Sequence[NDArray[np.float64]]], Sequence[NDArray[np.float64]]]
"""From logprobs to d loss / d logprob, one array a sequence."""


def deterministic_case(
    name: str,
    given: Sequence[NDArray[np.float64]],
    *,
    enabled: Derivative,
    disabled: Derivative,
    must_activate: bool,
    threshold: float = 0.0,
) -> Case:
    """Compare the gradients with and without the treatment on logprobs that were made for it.

    Args:
        given: The logprobs; at a boundary, such as a ratio that is just clipped, make one case for each side.
        threshold: A change of at most this size counts as none.
    """
    changes = [np.abs(one - other) for one, other in zip(enabled(given), disabled(given), strict=True)]
    largest = max((float(change.max(initial=0.0)) for change in changes), default=0.0)
    return Case(name, must_activate, largest > threshold, largest)


@dataclass(frozen=True)
class Tails:
    """The upper end of a distribution."""

    p90: float
    p99: float
    max: float


@dataclass(frozen=True)
class Drift:
    """log p now - log p when sampled, over the tokens that carry a gradient, in nats."""

    tokens: int
    """Those with an advantage; padding, prompts and answers without one do not count."""
    not_counted: int
    signed: Tails | None
    """None where no token counts."""
    absolute: Tails | None
    threshold: float
    exceeding: int
    """Tokens whose ratio is beyond exp(±threshold)."""
    removed: int
    """Of these, the ones whose gradient a clipping policy constraint takes away: drifted in the direction in which
    their advantage pushes them."""


def policy_drift(data: Sequence[Datum], output: ForwardBackwardOutput, *, threshold: float) -> Drift:
    """How far the learner is from the policy that sampled.

    Args:
        data: With loss inputs `logprobs` (the sampler's, as recorded when it sampled) and `advantages`.
        output: Of a forward pass over `data` before the update in question.
        threshold: Of |log ratio|, such as log(1.2).
    """
    pairs = [
        (now - datum.loss_fn_inputs["logprobs"].to_numpy(), datum.loss_fn_inputs["advantages"].to_numpy())
        for datum, now in zip(data, logprobs(output), strict=True)
    ]
    moved = np.concatenate([change for change, _ in pairs]) if pairs else np.array([])
    worth = np.concatenate([advantage for _, advantage in pairs]) if pairs else np.array([])
    counted = moved[worth != 0]
    beyond = np.abs(counted) > threshold
    return Drift(
        tokens=counted.size,
        not_counted=moved.size - counted.size,
        signed=_tails(counted),
        absolute=_tails(np.abs(counted)),
        threshold=threshold,
        exceeding=int(beyond.sum()),
        removed=int((beyond & (counted * worth[worth != 0] > 0)).sum()),
    )


@dataclass(frozen=True)
class Schedule:
    """What happened between the sampling and the update that was looked at."""

    optimizer_calls: int
    disjoint_minibatches: int
    epochs: int
    intervening_updates: int
    """Updates of the learner since the sampler took its weights."""
    sampler_checkpoint: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """One record; `retain` puts it into the evidence, `summary` into the run's last update."""

    gate: GateReading
    cause: Cause
    explanation: str
    next_diagnostic: str
    """The cheapest thing to do next; with it a concrete revised spec, where there is no plan for it."""
    cases: tuple[Case, ...] = ()
    inputs: tuple[Exhibit, ...] = ()
    """The loss inputs and masks, from `input_exhibit`."""
    drift: Drift | None = None
    schedule: Schedule | None = None
    gaps: tuple[str, ...] = ()
    """What was not found out."""
    fixes: tuple[str, ...] = ()
    """What was mended on the way."""

    @property
    def summary(self) -> str:
        """Two sentences: the cause and what comes next."""
        return (
            f"{self.gate.gate} stopped the run: {_sentence(self.explanation)} Next: {_sentence(self.next_diagnostic)}"
        )

    def retain(self, run: Run, name: str = "diagnosis.json") -> Evidence:
        """Keep the loss inputs, and the record that names them by hash."""
        for exhibit in self.inputs:
            exhibit.retain(run, "diagnostic")
        return run.evidence(name, "diagnostic", json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n")

    def to_json(self) -> dict[str, Any]:
        return {
            "version": 1,
            "gate": {"name": self.gate.gate, "status": self.gate.status, "problems": list(self.gate.problems)},
            "cause": self.cause.value,
            "explanation": self.explanation,
            "cases": [{**asdict(case), "holds": case.holds} for case in self.cases],
            "inputs": [{"name": exhibit.name, "sha256": exhibit.sha256} for exhibit in self.inputs],
            "drift": None if self.drift is None else asdict(self.drift),
            "schedule": None if self.schedule is None else asdict(self.schedule),
            "gaps": list(self.gaps),
            "fixes": list(self.fixes),
            "next_diagnostic": self.next_diagnostic,
        }


def _tails(values: NDArray[np.float64]) -> Tails | None:
    if not values.size:
        return None
    p90, p99 = np.quantile(values, [0.9, 0.99])
    return Tails(float(p90), float(p99), float(values.max()))


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
