"""A graph computed on one datum after another, within limits on size, memory and time."""

import time
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from spindle.backends.contract import CustomLoss, UserError
from spindle.backends.graphs import sizes
from spindle.backends.graphs.arguments import resolve
from spindle.backends.graphs.parsing import Graph, Node, parse
from spindle.backends.losses.kinds import Config, DatumLoss, Inputs

MOST_ELEMENTS = 1 << 22
"""Elements of one result: 32 MiB at 8 bytes each."""
MOST_MEMORY = 1 << 25
"""Elements of all results of one datum together: 256 MiB."""
SECONDS = 20.0
"""For all data of one request."""

_TEXTS = frozenset({"none", "mean", "sum", "batchmean", "floor", "trunc", "tanh", "fro", "cpu"})
"""Strings that may be arguments; no other changes what an operation does."""
_REFUSED = frozenset({"out", "generator", "pin_memory", "requires_grad", "output_size", "names"})
"""Arguments that may only be left at None or False, as the tracer sends them."""


def as_loss(custom: CustomLoss) -> DatumLoss:
    """The loss of one request. Raises `UserError` for a graph that is not allowed."""
    graph = parse(custom)
    run = _Run(custom.name, graph)
    ranks = {name: rank for name, rank in graph.inputs.items() if name != "logprobs"}
    several = graph.inputs["logprobs"] == 2
    return DatumLoss(name="custom", inputs=(), ranks=ranks, several_targets=several, datum=run.datum)


class _Run:
    """One request's evaluation; its clock runs while a datum is computed, and while its derivative is."""

    def __init__(self, name: str, graph: Graph) -> None:
        self._name = name
        self._graph = graph
        self._spent = 0.0
        self._derived_from = 0.0
        """When the derivative of the last datum was begun."""

    def datum(self, logprobs: Tensor, inputs: Inputs, _: Config) -> tuple[Tensor, dict[str, float]]:
        """Loss and metrics of one datum, always on the CPU, where the client would compute them."""
        rank = self._graph.inputs["logprobs"]
        if logprobs.ndim != rank:
            raise self._error(
                f"takes logprobs of {rank} dimensions, but target_tokens of a datum have the shape "
                f"{list(logprobs.shape)}"
            )
        start = time.monotonic()
        deadline = start + SECONDS - self._spent
        own = logprobs.cpu().clone()
        if own.requires_grad:
            own.register_hook(self._end_derivative)  # type: ignore[no-untyped-call]
        values: dict[str, Any] = {self._graph.placeholders["logprobs"]: own}
        for name, tensor in inputs.items():
            values[self._graph.placeholders[name]] = tensor.cpu().clone()
        used = 0
        for node in self._graph.nodes:
            if time.monotonic() > deadline:
                raise self._error(f"takes longer than {SECONDS:g} seconds for one request")
            values[node.name] = self._step(node, values)
            used += sum(tensor.numel() for tensor in sizes.tensors(values[node.name]))
            if used > MOST_MEMORY:
                raise self._error(f"needs more than {MOST_MEMORY} numbers for one datum")
        self._spent += time.monotonic() - start
        loss = self._loss(values)
        if loss.requires_grad:
            loss.register_hook(self._begin_derivative)  # type: ignore[no-untyped-call]
        return loss, self._metrics(values)

    def _begin_derivative(self, _: Tensor) -> None:
        self._derived_from = time.monotonic()

    def _end_derivative(self, _: Tensor) -> None:
        self._spent += time.monotonic() - self._derived_from

    def _step(self, node: Node, values: Mapping[str, Any]) -> Any:
        args, kwargs = resolve(node.args, values.__getitem__), resolve(node.kwargs, values.__getitem__)
        try:
            _check_arguments(node, args, kwargs)
            elements = node.operation.bound(node.operation.call, args, kwargs)
            if elements > MOST_ELEMENTS:
                raise sizes.TooLarge(f"would make {elements} numbers; at most {MOST_ELEMENTS} are allowed")
            result = node.operation.call(*args, **kwargs)
            sizes.check_whole(result)
        except Exception as error:
            # Whatever torch or Python raises about a client's graph is the client's to know.
            text = " ".join(str(error).split())[:300] or type(error).__name__
            raise self._error(f"{node.target} in node {node.name!r} failed: {text}") from None
        return result

    def _loss(self, values: Mapping[str, Any]) -> Tensor:
        loss = values[self._graph.loss.name]
        if not isinstance(loss, Tensor) or loss.ndim or not loss.is_floating_point():
            found = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise self._error(f"must return a scalar tensor of floating point, found {found}")
        return loss

    def _metrics(self, values: Mapping[str, Any]) -> dict[str, float]:
        metrics = {}
        for name, ref in self._graph.metrics.items():
            value = values[ref.name]
            number = value.detach().item() if isinstance(value, Tensor) and value.numel() == 1 else value
            if not isinstance(number, int | float):
                raise self._error(f"must return one number as the metric {name!r}")
            metrics[name] = float(number)
        return metrics

    def _error(self, text: str) -> UserError:
        return UserError(f"custom loss {self._name!r} {text}.")


def _check_arguments(node: Node, args: Any, kwargs: Mapping[str, Any]) -> None:
    refused = sorted(name for name in _REFUSED & kwargs.keys() if not (kwargs[name] is None or kwargs[name] is False))
    if refused:
        raise ValueError(f"the argument {refused[0]} is not allowed")
    if node.target == "getattr":
        return
    texts = [text for text in _texts([args, kwargs]) if text not in _TEXTS]
    if texts:
        raise ValueError(f"the argument {texts[0]!r} is not allowed")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return []
