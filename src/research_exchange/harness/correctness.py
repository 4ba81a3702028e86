"""The correctness preflight of a new loss or optimizer, measured through the stock SDK (R-100 to R-10D).

Measured are whole gradients and updates, by the difference of two downloads of the adapter: nothing in the protocol
returns them. What the errors mean is decided by `research_exchange.correctness`, with the spec's tolerances.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tinker
from numpy.typing import NDArray
from tinker.types import Datum, ForwardBackwardOutput, OptimizerConfig, OptimParams, TensorData

from research_exchange.client import GateReading, Run
from research_exchange.correctness import ParityErrors, parity_errors
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.fixed_inputs import input_exhibit
from research_exchange.harness.fixed_state import Accumulate, FixedState, loss_of

__all__ = [
    "CorrectnessPreflight",
    "Loss",
    "LossPath",
    "OptimizerPath",
    "Reference",
    "ReferenceLoss",
    "pinned_module",
    "revision_of",
]

_GATE = "correctness_preflight"

Loss: TypeAlias = Callable[[tinker.TrainingClient, Sequence[Datum]], tinker.APIFuture[ForwardBackwardOutput]]
"""Sends one gradient: `forward_backward` of the stock loss, or `forward_backward_custom` of the new one."""


class ReferenceLoss(NamedTuple):
    """What a reference makes of the learner's logprobs."""

    loss: float
    derivative: Sequence[NDArray[np.float64]]
    """d loss / d logprob of every target, one array a sequence, in the shape of its targets."""


Reference: TypeAlias = Callable[[Sequence[NDArray[np.float64]]], ReferenceLoss]
"""The treatment in double precision, written independently of the implementation: from the learner's logprobs of the
targets, one array a sequence, to loss and derivative."""


@dataclass(frozen=True)
class LossPath:
    """A loss as it is measured; all of them see the same weights and the same data."""

    id: str
    """As the spec's plan calls it."""
    stock: Loss
    """The service's own loss."""
    disabled: Loss
    """The new path with its treatment switched off."""
    enabled: Loss
    """The new path as the experiment uses it."""
    reference: Reference
    baseline_revision: str
    """Of the stock loss, as the spec's plan pins it."""
    reference_revision: str
    """Of the reference that is called here, such as `revision_of(its file)`."""
    unpacked: Callable[[int], Loss] | None = None
    """By a sequence's place, its part of `enabled`, to be sent by itself; for plans with `packed_loss` and
    `packed_gradient`."""


@dataclass(frozen=True)
class OptimizerPath:
    """An optimizer as it is measured: one step each, from the same weights and the same gradient."""

    id: str
    loss: Loss
    """Which gradient the steps take."""
    stock: OptimParams
    disabled: OptimParams
    """Of the new family, set so that it does what the stock one does."""
    enabled: OptimParams
    reference: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    """In double precision, from the full gradient to the update, both in the order of `Adapter.minus`."""
    family: OptimizerConfig
    """What the clients of the new optimizer are created with; the stock one is AdamW."""
    baseline_revision: str
    reference_revision: str
    learning_rates: Mapping[float, OptimParams] = field(default_factory=dict)
    """The probes of the scaling with the learning rate, the first one the base (R-107)."""


class CorrectnessPreflight:
    """Measures path after path on one fixed input and publishes the report.

    preflight = CorrectnessPreflight(run, FixedState(service_client, checkpoint), data, description=..., ...)
    preflight.measure(LossPath(...))
    if preflight.publish().may_go_on: ...
    """

    def __init__(
        self,
        run: Run,
        state: FixedState,
        data: Sequence[Datum],
        *,
        description: str,
        implementation: str,
        precision: str,
        normalization: str,
    ) -> None:
        """
        Args:
            state: The weights at which everything is measured; those of a fresh adapter hide half of it, because
                its B is 0.
            data: Sequences with what every loss of the paths takes, stale ones among them where training meets such.
            description: What the data are, for a reader.
            implementation: The revision of the code that is measured, such as `revision_of(script)`.
            precision: In which the numbers were computed.
            normalization: Over what the losses are summed or averaged.
        """
        self._run = run
        self._state = state
        self._data = list(data)
        self._input = input_exhibit(self._data, "correctness-input")
        self._stated = {
            "fixed_input": {"sha256": self._input.sha256, "description": description},
            "implementation_revision": implementation,
            "precision": precision,
            "normalization": normalization,
        }
        self._paths: list[dict[str, Any]] = []

    def measure(self, path: LossPath) -> dict[str, ParityErrors]:
        """The errors of a loss: two of it by value, two by its whole gradient, and more where the plan lists them."""
        stock, disabled = (self._state.gradient(self._sends(loss)) for loss in (path.stock, path.disabled))
        enabled = self._state.gradient(self._sends(path.enabled))
        wanted = path.reference(self._state.outputs(_weighted(self._data, [np.zeros(_shape(d)) for d in self._data])))
        reference = self._state.gradient(self._sends(lambda client, data: _push(client, data, wanted.derivative)))
        errors = {
            "baseline_loss": parity_errors(disabled.loss, stock.loss),
            "baseline_gradient": parity_errors(disabled.values, stock.values),
            "reference_loss": parity_errors(enabled.loss, wanted.loss),
            "reference_gradient": parity_errors(enabled.values, reference.values),
        }
        if path.unpacked is not None:
            apart = self._state.gradient(self._one_by_one(path.unpacked))
            errors["packed_loss"] = parity_errors(enabled.loss, apart.loss)
            errors["packed_gradient"] = parity_errors(enabled.values, apart.values)
        self._add(path, errors)
        return errors

    def measure_optimizer(self, path: OptimizerPath) -> dict[str, ParityErrors]:
        """The errors of an optimizer's first step, and the norms of its probes."""
        accumulate = self._sends(path.loss)
        new = replace(self._state, optimizer=path.family)
        stock, gradient = self._state.update(accumulate, path.stock), self._state.gradient(accumulate)
        disabled, enabled = (new.update(accumulate, params) for params in (path.disabled, path.enabled))
        errors = {
            "baseline_update": parity_errors(disabled.values, stock.values),
            "reference_update": parity_errors(enabled.values, path.reference(gradient.values)),
        }
        probes = [
            {"learning_rate": rate, "update_norm": float(np.linalg.norm(new.update(accumulate, params).values))}
            for rate, params in path.learning_rates.items()
        ]
        self._add(path, errors, probes)
        return errors

    def publish(self) -> GateReading:
        """Retain the fixed input, report all measured paths and ask whether the full run may start."""
        self._input.retain(self._run, "probe")
        self._run.update(correctness_preflight=self.report())
        return self._run.gate(_GATE)

    def report(self) -> dict[str, Any]:
        """The document of R-102."""
        return {"required": True, "paths": self._paths}

    def _add(
        self,
        path: LossPath | OptimizerPath,
        errors: Mapping[str, ParityErrors],
        probes: Sequence[Mapping[str, float]] = (),
    ) -> None:
        entry = {
            "id": path.id,
            "baseline_revision": path.baseline_revision,
            "reference_revision": path.reference_revision,
            **self._stated,
            "errors": dict(errors),
        }
        self._paths.append({**entry, "lr_scaling": list(probes)} if probes else entry)

    def _sends(self, loss: Loss) -> Accumulate:
        return lambda client: loss_of(loss(client, self._data).result())

    def _one_by_one(self, part: Callable[[int], Loss]) -> Accumulate:
        return lambda client: sum(
            loss_of(part(index)(client, [datum]).result()) for index, datum in enumerate(self._data)
        )


def revision_of(*files: Path) -> str:
    """A revision that follows from the files' bytes: `sha256:` and the hash over all of them, in the order given."""
    return f"sha256:{hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()}"


def pinned_module(file: Path, revision: str) -> ModuleType:
    """A reference, loaded from the very bytes that a plan pins.

    Raises:
        HarnessError: the file has another revision.
    """
    if revision_of(file) != revision:
        raise HarnessError(
            f"{file.name} is at {revision_of(file)}, and the plan pins {revision}; take the pinned file, or save a new "
            "version of the spec (R-109)."
        )
    module = ModuleType(file.stem)
    exec(compile(file.read_bytes(), file.name, "exec"), module.__dict__)
    return module


def _push(
    client: tinker.TrainingClient, data: Sequence[Datum], derivative: Sequence[NDArray[np.float64]]
) -> tinker.APIFuture[ForwardBackwardOutput]:
    """The gradient that a derivative by the logprobs amounts to: that of cross-entropy with the weights -derivative."""
    return client.forward_backward(_weighted(data, [-values for values in derivative]), "cross_entropy")


def _weighted(data: Sequence[Datum], weights: Sequence[NDArray[np.float64]]) -> list[Datum]:
    return [
        Datum(
            model_input=datum.model_input,
            loss_fn_inputs={
                "target_tokens": datum.loss_fn_inputs["target_tokens"],
                "weights": TensorData.from_numpy(values.astype(np.float32)),
            },
        )
        for datum, values in zip(data, weights, strict=True)
    ]


def _shape(datum: Datum) -> tuple[int, ...]:
    """[positions], or [positions, targets] where a position has several."""
    return datum.loss_fn_inputs["target_tokens"].to_numpy().shape
