"""The feasibility timer: what a pilot really took, phase by phase, and what the whole run plans (§15).

timer = FeasibilityTimer()
with timer.phase("setup"):
    ...
with timer.phase("training", units=2):
    ...
publish_feasibility(run, timer, planned={"training": 48, "evaluation": 400}, recovery_seconds=60)
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from research_exchange.client import Run
from research_exchange.harness.errors import HarnessError

__all__ = ["Allocation", "FeasibilityTimer", "must_fit", "publish_feasibility"]

_SIZES = ("base_model", "arms", "max_seq_len", "batch_size", "steps", "dataset", "eval")
"""Fields of a spec that decide how long a run takes (R-179)."""


@dataclass(frozen=True)
class Allocation:
    """The GPUs allocated to a run while it was timed, trainers and samplers together, and what shows it (R-173)."""

    gpu_count: float | None = None
    """None where a shared service does not tell; 0 on a service without any."""
    source: str | None = None


@dataclass
class _Phase:
    seconds: float = 0.0
    units: float = 0
    samples: int = 0


class FeasibilityTimer:
    """Adds up the time of each phase; one may be entered several times."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._phases: dict[str, _Phase] = {}

    @contextmanager
    def phase(self, name: str, *, units: float = 1, samples: int | None = None) -> Iterator[None]:
        """Time what is done inside; where that fails, nothing was measured.

        Args:
            name: setup, training, evaluation, or generation, filter, audit.
            units: How many steps, items or candidates are done inside.
            samples: How many measurements that makes; as many as units unless given.
        """
        began = self._clock()
        yield
        measured = self._phases.setdefault(name, _Phase())
        measured.seconds += self._clock() - began
        measured.units += units
        measured.samples += int(units) if samples is None else samples

    def seconds(self, name: str) -> float:
        """What a phase took so far."""
        return self._phases[name].seconds if name in self._phases else 0.0

    def measurements(self, planned: Mapping[str, float], allocation: Allocation) -> dict[str, dict[str, Any]]:
        """The `measurements` of R-171; a phase without a plan is done once and was done now."""
        return {
            name: {
                "seconds": phase.seconds,
                "units": phase.units,
                "planned_units": planned.get(name, phase.units),
                "samples": phase.samples,
                "gpu_count": allocation.gpu_count,
                "allocation_source": allocation.source,
            }
            for name, phase in self._phases.items()
        }


def publish_feasibility(
    run: Run,
    timer: FeasibilityTimer,
    *,
    planned: Mapping[str, float],
    recovery_seconds: float,
    source: str,
    allocation: Allocation = Allocation(),
    changed: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Report the timings and return the Exchange's projection: `status` is fits, exceeds or unknown (R-178).

    Args:
        planned: By phase, all that the run will do: steps of all arms, items of all evaluated arms.
        recovery_seconds: What is held back for trouble.
        source: Where the timings come from, for a reader.
        changed: What the pilot ran otherwise than the spec says, by the spec's field; declare it as a deviation, too.
        generation: The yield of generated tasks (R-176), where the spec generates any.
    """
    spec = run.spec()
    config = {name: spec[name] for name in _SIZES if name in spec}
    report = {
        "config": config,
        "effective_config": {**config, **(changed or {})},
        "primary_endpoint": spec.get("primary_endpoint"),
        "source": source,
        "measurements": timer.measurements(planned, allocation),
        "generation": generation,
        "recovery": {
            "seconds": recovery_seconds,
            "gpu_count": allocation.gpu_count,
            "allocation_source": allocation.source,
        },
    }
    run.update(feasibility=report)
    projection: dict[str, Any] = run.judgment()["feasibility"]
    return projection


def must_fit(projection: Mapping[str, Any]) -> None:
    """Go on where the projection stays inside the budget, or does not know: nothing is begun that cannot be finished.

    Raises:
        HarnessError: it exceeds the budget (R-175).
    """
    if projection["status"] == "exceeds":
        problems = " ".join(projection["problems"][:1])
        raise HarnessError(f"By the pilot's timings the comparison does not fit into the budget: {problems}")
