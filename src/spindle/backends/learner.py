"""Forward and backward passes of one model over a request's data, in micro-batches of bounded memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spindle.backends import head, losses
from spindle.backends.base import Base
from spindle.backends.contract import Array, Datum, ForwardBackward, ForwardBackwardResult, UserError
from spindle.backends.lora import Adapter, Span

TOKENS_AT_ONCE = 2048
"""Tokens in a micro-batch, padding included; activations of a 135M model take some 2 MB per token in fp32."""


@dataclass(frozen=True)
class Pass:
    """What a request gave."""

    result: ForwardBackwardResult
    gradient: dict[str, Tensor]
    """By parameter name; empty after a forward pass alone."""


def run(base: Base, adapter: Adapter, request: ForwardBackward, chosen: losses.Chosen) -> Pass:
    """Evaluate a request's loss and, unless it is forward only, its gradient. Raises `UserError`.

    Each request has micro-batches of its own, so that its result depends on nothing but the model and its data.
    """
    loss, config = chosen
    losses.check(loss, request.data, vocabulary=base.info.vocabulary, context_length=base.info.context_length)
    parameters = adapter.parameters()
    _clear(parameters)
    outputs: list[dict[str, Array]] = [{} for _ in request.data]
    total = 0.0
    for batch in _micro_batches(request.data):
        data = [request.data[i] for i in batch]
        result = _run_batch(base, adapter, chosen, data, forward_only=request.forward_only)
        total += result.loss
        for index, logprobs in zip(batch, _split(result.logprobs, data), strict=True):
            outputs[index] = {"logprobs": logprobs}
    gradient = {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}
    _clear(parameters)
    _check_finite(request, total, outputs, gradient)
    tokens = float(sum(len(datum.tokens) for datum in request.data))
    metrics = {"loss:sum": total, "tokens:sum": tokens}
    if isinstance(loss, losses.TokenLoss):
        metrics |= losses.measured(loss, request.data, [output["logprobs"] for output in outputs], config)
    return Pass(ForwardBackwardResult(outputs=outputs, metrics=metrics), gradient)


def _run_batch(
    base: Base, adapter: Adapter, chosen: losses.Chosen, data: Sequence[Datum], *, forward_only: bool
) -> head.HeadResult:
    loss, config = chosen
    if not isinstance(loss, losses.TokenLoss):
        raise UserError(f"loss_fn {loss.name!r} is not computed here yet; choose cross_entropy.")
    padded = base.pad([datum.tokens for datum in data])
    inputs = {name: _rows(base, [datum.loss_inputs[name] for datum in data], torch.float32) for name in loss.inputs}
    targets = _rows(base, [datum.loss_inputs[losses.TARGETS] for datum in data], torch.long)
    with torch.set_grad_enabled(not forward_only):
        states = base.hidden(padded.tokens, [Span(adapter, len(data))])[padded.real]
    with torch.no_grad():
        result = head.learn(
            base,
            adapter,
            states.detach(),
            targets,
            lambda logprobs, rows: loss.terms(
                logprobs, {name: values[rows] for name, values in inputs.items()}, config
            ),
            with_gradient=not forward_only,
        )
    if result.gradient is not None and states.requires_grad:
        states.backward(result.gradient)  # type: ignore[no-untyped-call]
    return result


def _micro_batches(data: Sequence[Datum]) -> Iterator[list[int]]:
    """Indices of data of similar length and as many targets per token, at most `TOKENS_AT_ONCE` with their padding."""
    order = sorted(range(len(data)), key=lambda i: (_columns(data[i]), len(data[i].tokens), i), reverse=True)
    batch: list[int] = []
    for index in order:
        if batch:
            width = len(data[batch[0]].tokens)
            full = (len(batch) + 1) * width > TOKENS_AT_ONCE
            if full or _columns(data[index]) != _columns(data[batch[0]]):
                yield batch
                batch = []
        batch.append(index)
    yield batch


def _columns(datum: Datum) -> int:
    targets = datum.loss_inputs[losses.TARGETS]
    return 1 if targets.ndim == 1 else int(targets.shape[1])


def _rows(base: Base, arrays: Sequence[Array], dtype: torch.dtype) -> Tensor:
    """Arrays [N_i] or [N_i, K] one below the other, [n, K]."""
    joined = np.concatenate([array.reshape(len(array), -1) for array in arrays])
    return torch.as_tensor(joined).to(base.device, dtype)


def _split(logprobs: Tensor, data: Sequence[Datum]) -> Iterator[Array]:
    rows = logprobs.cpu().numpy()
    start = 0
    for datum in data:
        stop = start + len(datum.tokens)
        yield rows[start:stop].reshape(datum.loss_inputs[losses.TARGETS].shape).copy()
        start = stop


def _clear(parameters: dict[str, Tensor]) -> None:
    for parameter in parameters.values():
        parameter.grad = None


def _check_finite(
    request: ForwardBackward, total: float, outputs: list[dict[str, Array]], gradient: dict[str, Tensor]
) -> None:
    for index, output in enumerate(outputs):
        if not np.isfinite(output["logprobs"]).all():
            raise UserError(
                f"data[{index}] has logprobs that are not finite: the weights of {request.model_id!r} have diverged; "
                "go back to an earlier checkpoint and lower the learning rate."
            )
    if not np.isfinite(total) or not all(bool(torch.isfinite(part).all()) for part in gradient.values()):
        raise UserError(
            f"the {request.loss_fn} loss of this request is {total} or its gradient is not finite, so it was left out; "
            "look for extreme weights, advantages or logprobs in data."
        )
