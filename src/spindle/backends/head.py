"""From hidden states to logprobs of targets, and back, without ever holding the logits of a whole batch.

The output head is the widest matrix of the model. Its logits are made in blocks of rows; each block yields logprobs,
loss and gradient at once, so nothing of the size of the vocabulary is kept or computed twice.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from spindle.backends.base import Base
from spindle.backends.lora import HEAD, Adapter, LowRank, Span


@dataclass(frozen=True)
class HeadResult:
    logprobs: Tensor
    """fp32 [n, K]"""
    loss: float
    """Sum of the loss terms."""
    gradient: Tensor | None
    """Of the loss with respect to the hidden states, [n, hidden]; None where not asked for."""


def logprobs(base: Base, adapter: Adapter | None, states: Tensor, targets: Tensor) -> Tensor:
    """fp32 [n, K] logprobs of targets [n, K] given states [n, hidden], without a gradient."""
    blocks = []
    for rows in _blocks(base, len(states)):
        logits = base.logits(states[rows], [Span(adapter, rows.stop - rows.start)])
        block = torch.log_softmax(logits, dim=-1)
        blocks.append(block.gather(1, targets[rows]))
    return torch.cat(blocks)


def learn(
    base: Base,
    adapter: Adapter,
    states: Tensor,
    targets: Tensor,
    terms: Callable[[Tensor, slice], Tensor],
    *,
    with_gradient: bool,
) -> HeadResult:
    """Loss of hidden states [n, hidden] of one adapter at `targets` [n, K].

    `terms(logprobs, rows)` gives the loss terms of a block of rows. With a gradient, the head's own low-rank pair adds
    its part to `.grad`.
    """
    gradient = torch.zeros_like(states) if with_gradient else None
    found = []
    loss = 0.0
    for rows in _blocks(base, len(states)):
        logits = base.logits(states[rows], [Span(adapter, rows.stop - rows.start)])
        all_logprobs = torch.log_softmax(logits, dim=-1)
        leaf = all_logprobs.gather(1, targets[rows]).requires_grad_(with_gradient)
        with torch.set_grad_enabled(with_gradient):
            total = terms(leaf, rows).sum(dtype=torch.float64)
        loss += float(total.detach())
        found.append(leaf.detach())
        if gradient is not None:
            (slope,) = torch.autograd.grad(total, leaf)
            probabilities = torch.exp(all_logprobs, out=logits)
            _backward(base, adapter, states[rows], targets[rows], slope, probabilities, gradient[rows])
    return HeadResult(logprobs=torch.cat(found), loss=loss, gradient=gradient)


def _backward(
    base: Base,
    adapter: Adapter,
    states: Tensor,
    targets: Tensor,
    slope: Tensor,
    probabilities: Tensor,
    gradient: Tensor,
) -> None:
    """Add dloss/dstates to `gradient` for a block, given slope = dloss/dlogprobs [n, K].

    dloss/dlogits = slope at the targets - sum(slope) p. Rows whose slope is zero, such as prompts, are left out.
    """
    active = (slope != 0).any(dim=1)
    if not active.all():
        states, targets, slope, probabilities = states[active], targets[active], slope[active], probabilities[active]
    grad_logits = probabilities.mul_(-slope.sum(dim=1, keepdim=True)).scatter_add_(1, targets, slope)
    grad_logits = grad_logits.to(base.dtype)
    grad_states = grad_logits @ base.head
    pair = adapter.pairs.get(HEAD)
    if pair is not None:
        _backward_pair(pair, states, grad_logits, grad_states)
    gradient[active] = grad_states


def _backward_pair(pair: LowRank, states: Tensor, grad_logits: Tensor, grad_states: Tensor) -> None:
    inner = states @ pair.a.T
    grad_inner = (grad_logits @ pair.b).mul_(pair.scaling)
    grad_states.addmm_(grad_inner, pair.a)
    _accumulate(pair.a, grad_inner.T @ states)
    _accumulate(pair.b, (grad_logits.T @ inner).mul_(pair.scaling))


def _accumulate(parameter: Tensor, gradient: Tensor) -> None:
    parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


def _blocks(base: Base, rows: int) -> list[slice]:
    return [slice(start, min(start + base.logit_rows, rows)) for start in range(0, rows, base.logit_rows)]
