"""One adapter, loaded as often as something is to be measured from it: updates, and with them full gradients."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import tinker
from numpy.typing import NDArray
from tinker.types import AdamOptimizerConfig, AdamParams, Datum, ForwardBackwardOutput, OptimizerConfig, OptimParams

from research_exchange.harness.adapters import Adapter, download_adapter
from research_exchange.harness.fixed_inputs import logprobs

__all__ = ["Accumulate", "FixedState", "Gradient", "loss_of"]

Accumulate: TypeAlias = Callable[[tinker.TrainingClient], float]
"""Adds gradients to a client's, by `forward_backward` calls, and returns the loss."""

_ADAMW = AdamOptimizerConfig()
_LARGE = 1e8
"""As learning rate and as epsilon: beside it the second moment vanishes, and AdamW's first step is the gradient."""
_MAGNIFIED = 1e3
"""The learning rate beyond that: the step of a float32 weight is then read off to a thousandth of its rounding."""


@dataclass(frozen=True)
class Gradient:
    """A loss and its gradient by every number of the adapter."""

    loss: float
    values: NDArray[np.float64]
    """[numbers] In the order of `Adapter.minus`."""


@dataclass(frozen=True)
class FixedState:
    """The weights of a checkpoint, each time with a fresh optimizer.

    Every measurement has a client and a session of its own, and gives both back: a training service holds as many
    models as it has room for.
    """

    connect: Callable[[], tinker.ServiceClient]
    """A new client of the service, such as `service_client`."""
    checkpoint: str
    """As `save_state` named it."""
    optimizer: OptimizerConfig = _ADAMW

    @cached_property
    def adapter(self) -> Adapter:
        """The weights that every measurement starts from."""
        with self._loaded() as (service, client):
            return download_adapter(service, client)

    def outputs(self, data: Sequence[Datum]) -> list[NDArray[np.float64]]:
        """The logprobs of the targets, one array a sequence.

        Args:
            data: With loss inputs as `cross_entropy` takes them.
        """
        with self._loaded() as (_, client):
            return logprobs(client.forward(list(data), "cross_entropy").result())

    def update(self, accumulate: Accumulate, params: OptimParams) -> Gradient:
        """What one optimizer step does: the loss before it, and the change of every number."""
        with self._loaded() as (service, client):
            loss = accumulate(client)
            client.optim_step(params).result()
            return Gradient(loss, download_adapter(service, client).minus(self.adapter))

    @contextmanager
    def _loaded(self) -> Iterator[tuple[tinker.ServiceClient, tinker.TrainingClient]]:
        """A client that has taken no step yet, and its service."""
        with self.connect() as service:
            client = service.create_training_client_from_state(self.checkpoint, optimizer=self.optimizer)
            yield service, client.result()

    def gradient(self, accumulate: Accumulate) -> Gradient:
        """The full gradient, which no call of the protocol returns: one step of AdamW with a huge epsilon is it.

        The step is -rate * m / (sqrt(v) + eps) with m the gradient g and v its square, both bias-corrected; with
        eps = 1e8 that is -rate/1e8 * g, to a relative error of |g| * 1e-8 and the rounding of float32. Only AdamW does.
        """
        params = AdamParams(learning_rate=_MAGNIFIED * _LARGE, eps=_LARGE, weight_decay=0.0, grad_clip_norm=0.0)
        stepped = self.update(accumulate, params)
        return Gradient(stepped.loss, stepped.values / -_MAGNIFIED)


def loss_of(output: ForwardBackwardOutput) -> float:
    """The summed loss that a service reports."""
    return float(output.metrics["loss:sum"])
