"""From hidden states to logprobs of targets, and back, without ever holding the logits of a whole batch.

The output head is the widest matrix of the model. Its logits are made in blocks of rows. Losses that are a sum over
tokens get logprobs, loss and gradient from each block at once (`learn`), so nothing of the size of the vocabulary is
kept or computed twice; those that couple the tokens of a sequence go over the head a second time (`logprobs`, then
`backward`).

A row of states may have several positions, of sequences that share it: n positions have K targets each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from spindle.backends.base import Base
from spindle.backends.lora import HEAD, Adapter, LowRank, Span


@dataclass(frozen=True)
class Targets:
    """Which logprobs are asked for."""

    ids: Tensor
    """int64 [n, K]"""
    rows: Tensor
    """int64 [n], ascending: the row of states that each position has."""

    @classmethod
    def one_per_row(cls, ids: Tensor) -> "Targets":
        """Position i is row i."""
        return cls(ids, torch.arange(len(ids), device=ids.device))


@dataclass(frozen=True)
class HeadResult:
    logprobs: Tensor
    """fp32 [n, K]"""
    loss: float
    """Sum of the loss terms."""
    gradient: Tensor | None
    """Of the loss with respect to the hidden states, [rows, hidden]; None where not asked for."""


def logprobs(base: Base, adapter: Adapter | None, states: Tensor, targets: Targets) -> Tensor:
    """fp32 [n, K] logprobs of targets given states [rows, hidden], without a gradient."""
    blocks = _blocks(base, states, targets)
    return torch.cat([block.gather(_distribution(base, adapter, block).logprobs) for block in blocks])


def learn(
    base: Base,
    adapter: Adapter,
    states: Tensor,
    targets: Targets,
    terms: Callable[[Tensor, slice], Tensor],
    *,
    with_gradient: bool,
) -> HeadResult:
    """Loss of hidden states [rows, hidden] of one adapter at `targets`.

    `terms(logprobs, positions)` gives the loss terms of a block of positions. With a gradient, the head's own low-rank
    pair adds its part to `.grad`.
    """
    gradient = torch.zeros_like(states) if with_gradient else None
    found = []
    loss = 0.0
    for block in _blocks(base, states, targets):
        distribution = _distribution(base, adapter, block)
        leaf = block.gather(distribution.logprobs).requires_grad_(with_gradient)
        with torch.set_grad_enabled(with_gradient):
            total = terms(leaf, block.positions).sum(dtype=torch.float64)
        loss += float(total.detach())
        found.append(leaf.detach())
        if gradient is not None:
            # A plugin's terms may be constants.
            slope = torch.autograd.grad(total, leaf)[0] if total.requires_grad else torch.zeros_like(leaf)
            gradient[block.span] = _backward(base, adapter, block, slope, distribution)
    return HeadResult(logprobs=torch.cat(found), loss=loss, gradient=gradient)


def backward(base: Base, adapter: Adapter, states: Tensor, targets: Targets, slope: Tensor) -> Tensor:
    """Gradient of a loss with respect to hidden states [rows, hidden], given slope = dloss/dlogprobs [n, K].

    The head's own low-rank pair adds its part to `.grad`.
    """
    gradient = torch.zeros_like(states)
    for block in _blocks(base, states, targets):
        part = slope[block.positions]
        if part.any():
            gradient[block.span] = _backward(base, adapter, block, part, _distribution(base, adapter, block))
    return gradient


@dataclass(frozen=True)
class _Block:
    """Rows of states whose logits are made together, and their positions."""

    span: slice
    positions: slice
    states: Tensor
    """[rows, hidden]"""
    ids: Tensor
    """[n, K]"""
    rows: Tensor
    """[n], counted from the block's first row"""

    def gather(self, values: Tensor) -> Tensor:
        """Of values [rows, vocabulary], those at the targets, [n, K]."""
        return values[self.rows[:, None], self.ids]


def _blocks(base: Base, states: Tensor, targets: Targets) -> Iterator[_Block]:
    starts = range(0, len(states), base.logit_rows)
    edges = torch.searchsorted(targets.rows, torch.tensor([*starts, len(states)], device=states.device)).tolist()
    for start, first, last in zip(starts, edges, edges[1:], strict=False):
        span, positions = slice(start, min(start + base.logit_rows, len(states))), slice(first, last)
        yield _Block(span, positions, states[span], targets.ids[positions], targets.rows[positions] - start)


class _Distribution(NamedTuple):
    """What the head says about each row of a block."""

    logprobs: Tensor
    """fp32 [rows, vocabulary]"""
    slopes: Tensor | None
    """Derivative of each logit with respect to what the head's matrix gave; None means 1."""


def _distribution(base: Base, adapter: Adapter | None, block: _Block) -> _Distribution:
    logits = base.logits(block.states, [Span(adapter, len(block.states))])
    slopes = base.logit_slopes(logits)
    return _Distribution(torch.log_softmax(logits, dim=-1, out=logits), slopes)  # in the memory of the logits


def _backward(base: Base, adapter: Adapter, block: _Block, slope: Tensor, distribution: _Distribution) -> Tensor:
    """dloss/dstates of a block [rows, hidden], given slope = dloss/dlogprobs [n, K]; the distribution is used up.

    dloss/dlogits = slope at the targets - sum(slope) p. Rows whose slope is zero, such as prompts, are left out.
    """
    active = torch.zeros(len(block.states), dtype=torch.bool, device=slope.device)
    active[block.rows[(slope != 0).any(dim=1)]] = True
    states, probabilities, slopes = block.states, distribution.logprobs, distribution.slopes
    rows, ids = block.rows, block.ids
    if not active.all():
        states, probabilities = states[active], probabilities[active]
        slopes = None if slopes is None else slopes[active]
        kept = active[rows]
        rows, ids, slope = (active.cumsum(0) - 1)[rows[kept]], ids[kept], slope[kept]
    sums = torch.zeros(len(states), device=slope.device).index_add_(0, rows, slope.sum(dim=1))
    grad_logits = probabilities.exp_().mul_(-sums[:, None])
    grad_logits.index_put_((rows[:, None], ids), slope, accumulate=True)
    if slopes is not None:
        grad_logits.mul_(slopes)
    grad_logits = grad_logits.to(base.dtype)
    grad_states = grad_logits @ base.head
    pair = adapter.pairs.get(HEAD)
    if pair is not None:
        _backward_pair(pair, states, grad_logits, grad_states)
    gradient = torch.zeros_like(block.states)
    gradient[active] = grad_states
    return gradient


def _backward_pair(pair: LowRank, states: Tensor, grad_logits: Tensor, grad_states: Tensor) -> None:
    a, b = pair.a.to(states.dtype), pair.b.to(states.dtype)
    inner = states @ a.T
    grad_inner = (grad_logits @ b).mul_(pair.scaling)
    grad_states.addmm_(grad_inner, a)
    _accumulate(pair.a, grad_inner.T @ states)
    _accumulate(pair.b, (grad_logits.T @ inner).mul_(pair.scaling))


def _accumulate(parameter: Tensor, gradient: Tensor) -> None:
    if parameter.grad is None:
        parameter.grad = gradient.to(parameter.dtype)
    else:
        parameter.grad.add_(gradient)
