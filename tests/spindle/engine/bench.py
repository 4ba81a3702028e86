"""An engine over a recording backend, and the work that tests hand to it."""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import numpy as np

from spindle.backends.contract import Backend, LoraShape, OptimizerConfig, OptimizerStep, SampleRequest, SamplingParams
from spindle.engine import Engine, Timing, Work
from tests.spindle.engine.recording import RecordingBackend

TIMING = Timing(sample_quiet=0.05, sample_linger=0.5, sample_sequences=64, gap=60.0)


class Bench:
    """An engine over a recording backend, with a clock that tests can move."""

    def __init__(self) -> None:
        self.backend = RecordingBackend()
        self.skew = 0.0
        self.engine = Engine(self.backend, TIMING, clock=lambda: time.monotonic() + self.skew)

    def open(self, *model_ids: str) -> None:
        for model_id in model_ids:
            self.engine.open(model_id, creation(model_id)).result(5)
        self.backend.calls.clear()

    def calls_take(self, **seconds: float) -> None:
        """Let the clock say that calls take so long, by their first word."""

        def take(call: str) -> None:
            self.skew += seconds[call.split()[0]]

        self.backend.each_takes(take)

    def blocked(self, model_id: str = "blocker") -> None:
        """Occupy the compute thread until `backend.hold` is set."""
        self.open(model_id)
        self.backend.entered.clear()
        self.backend.hold.clear()
        self.engine.submit(model_id, 1, step(model_id))
        assert self.backend.entered.wait(5)


def creation(model_id: str) -> Work:
    return Work(lambda backend: backend.create_model(model_id, "base", LoraShape(), OptimizerConfig()))


def step(model_id: str) -> Work:
    def run(backend: Backend) -> None:
        backend.optim_step(model_id, OptimizerStep())

    return Work(run)


def prompt(base: str = "base", num_samples: int = 1, steps: int = 1, seed: int | None = None) -> SampleRequest:
    return SampleRequest(base, None, np.zeros(3, np.int64), num_samples, SamplingParams(steps, seed=seed))


def settle(*futures: "Future[Any]") -> None:
    assert not wait(futures, 5).not_done


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
