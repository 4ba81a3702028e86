"""Metrics of data together: `name:reduction`, with the reductions that the Tinker client knows."""

from collections.abc import Callable, Sequence
from typing import Final

import torch

from spindle.backends.contract import Array, Datum
from spindle.backends.losses.kinds import Config, TokenLoss, tensors

_REDUCTIONS: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
    "min": min,
    "max": max,
}


def reduced(measured: Sequence[dict[str, float]]) -> dict[str, float]:
    """One value per metric of the first datum that every datum has; the client merges chunks the same way."""
    return {
        name: _REDUCTIONS[name.rpartition(":")[2]]([metrics[name] for metrics in measured])
        for name in (measured[0] if measured else ())
        if all(name in metrics for metrics in measured)
    }


def measured(loss: TokenLoss, data: Sequence[Datum], logprobs: Sequence[Array], config: Config) -> dict[str, float]:
    """What a loss tells about its tokens, given the logprobs of each datum, shaped like its targets."""
    if loss.metrics is None:
        return {}
    found = []
    for datum, values in zip(data, logprobs, strict=True):
        rows = torch.as_tensor(values)
        found.append(loss.metrics(rows, tensors(datum, loss.inputs, rows), config))
    return reduced(found)
