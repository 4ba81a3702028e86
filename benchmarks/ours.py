"""Spindle's side of the work: its backend, in this process."""

import tempfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.comparison import THREADS
from benchmarks.data import NEW_TOKENS, SAMPLES, prompts, random_tokens
from spindle import backends
from spindle.backends.contract import (
    Datum,
    ForwardBackward,
    LoraShape,
    OptimizerConfig,
    OptimizerStep,
    SampledSequence,
    SampleRequest,
    SampleResult,
    SamplingParams,
)
from spindle.backends.models import InstalledModel

RANK = 32

Result = TypeVar("Result")


class Spindle:
    """A backend on the base model, with adapters of rank 32 on attention, MLP and head."""

    def __init__(self, model: InstalledModel) -> None:
        self._name = model.name
        self._backend = backends.load({model.name: model.path}, device="cpu", dtype="float32", threads=THREADS)

    def create(self, tenants: int) -> None:
        """Adapters `0` to `tenants - 1`."""
        for tenant in range(tenants):
            self._backend.create_model(str(tenant), self._name, LoraShape(rank=RANK, seed=0), OptimizerConfig())

    def train(self, sequences: int, length: int, tenants: int = 1) -> None:
        """Cross-entropy, the sequences dealt out to the tenants in one call."""
        data = [_supervised(row) for row in random_tokens(sequences, length + 1)]
        share = sequences // tenants
        self._backward(
            [
                ForwardBackward(str(tenant), data[tenant * share : (tenant + 1) * share], "cross_entropy")
                for tenant in range(tenants)
            ]
        )

    def optimize(self) -> None:
        self._backend.optim_step("0", OptimizerStep({"learning_rate": 1e-6}))

    def sample(self, new_tokens: int = NEW_TOKENS) -> None:
        """From the base model."""
        self._sample(None, new_tokens)

    def grpo_step(self) -> None:
        """A snapshot, rollouts from it, importance sampling over them, and an update."""
        with tempfile.TemporaryDirectory() as folder:
            self._backend.save_adapter("0", Path(folder))
            results = self._sample(Path(folder), NEW_TOKENS)
        rollouts = [(prompt, s) for prompt, r in zip(prompts(), results, strict=True) for s in r.sequences]
        data = [_policy(prompt, sequence, 1.0 - 2 * (i % 2)) for i, (prompt, sequence) in enumerate(rollouts)]
        self._backward([ForwardBackward("0", data, "importance_sampling")])
        self.optimize()

    def _sample(self, adapter: Path | None, new_tokens: int) -> list[SampleResult]:
        params = SamplingParams(new_tokens, stop_tokens=())
        requests = [SampleRequest(self._name, adapter, prompt, SAMPLES, params) for prompt in prompts()]
        return [_sound(result) for result in self._backend.sample(requests)]

    def _backward(self, requests: list[ForwardBackward]) -> None:
        for result in self._backend.forward_backward(requests):
            _sound(result)


def _sound(result: Result | backends.UserError) -> Result:
    if isinstance(result, backends.UserError):
        raise result
    return result


def _supervised(row: Any) -> Datum:
    return Datum(row[:-1], {"target_tokens": row[1:], "weights": np.ones(len(row) - 1, np.float32)})


def _policy(prompt: Any, sequence: SampledSequence, advantage: float) -> Datum:
    tokens = np.concatenate([prompt, sequence.tokens]).astype(np.int64)
    silent = np.zeros(len(prompt) - 1, np.float32)
    return Datum(
        tokens[:-1],
        {
            "target_tokens": tokens[1:],
            "logprobs": np.concatenate([silent, sequence.logprobs]),
            "advantages": np.concatenate([silent, np.full(len(sequence.tokens), advantage, np.float32)]),
        },
    )
