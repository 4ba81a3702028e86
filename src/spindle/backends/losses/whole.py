"""Losses that couple the tokens of a datum: their value, and their slope at every logprob."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from spindle.backends.contract import Datum, UserError
from spindle.backends.losses.checks import TARGETS
from spindle.backends.losses.kinds import Config, DatumLoss, tensors


@dataclass(frozen=True)
class Slopes:
    """A loss and its first derivative, of some data together."""

    loss: float
    slope: Tensor | None
    """dloss/dlogprobs [n, K]; None where not asked for."""
    metrics: list[dict[str, float]]
    """Of each datum; `reduced` makes those of a request."""


def slopes(loss: DatumLoss, data: Sequence[Datum], logprobs: Tensor, config: Config, *, with_gradient: bool) -> Slopes:
    """Evaluate `loss` at the logprobs [n, K] of the data's targets, the rows of one datum following on another's.

    All data have the same K. Raises `UserError` where the loss cannot be computed on a datum.
    """
    total = 0.0
    found = []
    metrics = []
    start = 0
    for datum in data:
        stop = start + len(datum.tokens)
        rows = logprobs[start:stop].detach()
        leaf = rows.reshape(datum.loss_inputs[TARGETS].shape).requires_grad_(with_gradient)
        inputs = tensors(datum, loss.inputs, leaf) | _ranked(datum, loss.ranks, leaf)
        with torch.set_grad_enabled(with_gradient):
            value, measured = loss.datum(leaf, inputs, config)
        total += float(value.detach())
        metrics.append(measured)
        if with_gradient:
            found.append(_slope(loss, value, leaf).reshape(rows.shape))
        start = stop
    return Slopes(total, torch.cat(found) if with_gradient else None, metrics)


def _ranked(datum: Datum, ranks: Mapping[str, int], like: Tensor) -> dict[str, Tensor]:
    """Inputs of any shape keep their type: a graph may index with whole numbers."""
    return {name: torch.as_tensor(datum.loss_inputs[name]).to(like.device) for name in ranks}


def _slope(loss: DatumLoss, value: Tensor, leaf: Tensor) -> Tensor:
    """The derivative, zero where the loss does not depend on the logprobs."""
    if not value.requires_grad:
        return torch.zeros_like(leaf)
    try:
        (slope,) = torch.autograd.grad(value, leaf, allow_unused=True, materialize_grads=True)
    except RuntimeError as error:
        raise UserError(f"the loss {loss.name!r} has no derivative here ({error}); compute it otherwise.") from None
    return slope
