"""The work done by Spindle's backend, in this process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.comparison import THREADS
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
    """A backend on the base model with one or more tenants, each a LoRA of rank 32 on attention, MLP and head."""

    def __init__(self, model: InstalledModel, tenants: int = 1) -> None:
        self._name = model.name
        self._backend = backends.load({model.name: model.path}, device="cpu", dtype="float32", threads=THREADS)
        self.tenants = [f"tenant-{number}" for number in range(tenants)]
        for tenant in self.tenants:
            self._backend.create_model(tenant, model.name, LoraShape(rank=RANK, seed=0), OptimizerConfig())

    def forward_backward(self, data: Any) -> None:
        """Cross-entropy over rows [B, N + 1] of tokens, dealt out to the tenants in one call."""
        share = len(data) // len(self.tenants)
        self._train(
            [
                ForwardBackward(
                    tenant, [_supervised(row) for row in data[i * share : (i + 1) * share]], "cross_entropy"
                )
                for i, tenant in enumerate(self.tenants)
            ]
        )

    def reinforce(self, rollouts: Sequence[tuple[Any, SampledSequence]]) -> None:
        """Importance sampling over prompts and completions, with an advantage of +1 or -1 in turn."""
        data = [_policy(prompt, sequence, 1.0 - 2 * (i % 2)) for i, (prompt, sequence) in enumerate(rollouts)]
        self._train([ForwardBackward(self.tenants[0], data, "importance_sampling")])

    def step(self) -> None:
        for tenant in self.tenants:
            self._backend.optim_step(tenant, OptimizerStep({"learning_rate": 1e-4}))

    def save(self, directory: Path) -> None:
        """Write a sampler snapshot."""
        self._backend.save_adapter(self.tenants[0], directory)

    def sample(self, prompts: Any, samples: int, new_tokens: int, adapter: Path | None = None) -> list[SampleResult]:
        params = SamplingParams(new_tokens, stop_tokens=())
        requests = [SampleRequest(self._name, adapter, prompt, samples, params) for prompt in prompts]
        return [_sound(result) for result in self._backend.sample(requests)]

    def _train(self, requests: list[ForwardBackward]) -> None:
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
