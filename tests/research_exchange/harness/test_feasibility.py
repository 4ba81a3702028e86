"""The timer, and what the Exchange projects from it."""

from collections.abc import Iterator

import pytest

from research_exchange.client import Run
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.feasibility import Allocation, FeasibilityTimer, must_fit, publish_feasibility
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness.preflights import start_run

NO_GPU = Allocation(0, "the training service runs on a CPU")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def run(served: ServedExchange) -> Run:
    return start_run(served, feasibility_required=True)


def timed(clock: Clock, *, training: float = 6.0) -> FeasibilityTimer:
    timer = FeasibilityTimer(clock)
    for name, seconds, units in (("setup", 3.0, 1), ("training", training, 2), ("evaluation", 4.0, 10)):
        with timer.phase(name, units=units):
            clock.now += seconds
    return timer


@pytest.fixture
def clock() -> Iterator[Clock]:
    yield Clock()


def publish(run: Run, timer: FeasibilityTimer, *, steps: int = 8, allocation: Allocation = NO_GPU) -> dict[str, object]:
    return publish_feasibility(
        run,
        timer,
        planned={"training": steps, "evaluation": 20},
        recovery_seconds=10,
        source="a pilot",
        allocation=allocation,
    )


def test_r172_the_projection_is_that_of_the_measurements(run: Run, clock: Clock) -> None:
    """3 s + 6 s / 2 * 8 + 4 s / 10 * 20 + 10 s in reserve."""
    found = publish(run, timed(clock))
    assert found["status"] == "fits", found["problems"]
    must_fit(found)
    assert found["phases"] == {"setup": 3.0, "training": 24.0, "evaluation": 8.0}
    assert found["wall_seconds"] == 45.0
    assert found["gpu_hours"] == 0


def test_r178_what_takes_too_long_exceeds(run: Run, clock: Clock) -> None:
    found = publish(run, timed(clock, training=600.0))
    assert found["status"] == "exceeds"
    with pytest.raises(HarnessError, match=r"does not fit into the budget: .*R-178"):
        must_fit(found)


def test_r174_a_plan_that_leaves_an_arm_out_is_unknown(run: Run, clock: Clock) -> None:
    """Two arms of four steps."""
    found = publish(run, timed(clock), steps=4)
    assert found["status"] == "unknown"
    assert "R-174" in str(found["problems"])


def test_r173_an_allocation_that_is_not_known_stays_unknown(run: Run, clock: Clock) -> None:
    found = publish(run, timed(clock), allocation=Allocation())
    assert (found["status"], found["gpu_hours"]) == ("fits", None)


def test_a_phase_adds_up_and_counts_its_measurements(clock: Clock) -> None:
    timer = FeasibilityTimer(clock)
    for _ in range(3):
        with timer.phase("training"):
            clock.now += 2.0
    [training] = timer.measurements({"training": 30}, NO_GPU).values()
    assert (training["seconds"], training["units"], training["samples"], training["planned_units"]) == (6.0, 3, 3, 30)


def test_what_failed_was_not_measured(clock: Clock) -> None:
    timer = FeasibilityTimer(clock)
    with pytest.raises(RuntimeError), timer.phase("training"):
        raise RuntimeError
    assert timer.measurements({}, NO_GPU) == {}
