"""Forward and backward passes over requests for gradients.

A request's data are cut into micro-batches. A pass through the base model takes as many micro-batches as fit, of one
or of several requests, each with rows and an adapter of its own, so that the result of a request depends on nothing but
its model and its data.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spindle.backends import head, losses
from spindle.backends.base import Base
from spindle.backends.batching import packed_batches, padded_batches
from spindle.backends.budget import TOKENS_AT_ONCE
from spindle.backends.contract import Array, Datum, ForwardBackward, ForwardBackwardResult, UserError
from spindle.backends.head import Targets
from spindle.backends.lora import Adapter, Span
from spindle.backends.losses.metrics import reduced
from spindle.backends.packing import Packed, Plan, pack


@dataclass(frozen=True)
class Job:
    """A request, whose loss was looked up, on its model's adapter."""

    adapter: Adapter
    request: ForwardBackward
    chosen: losses.Chosen


@dataclass(frozen=True)
class Learned:
    """What a request gave."""

    result: ForwardBackwardResult
    gradient: dict[str, Tensor]
    """By parameter name; empty after a forward pass alone."""


def run(base: Base, jobs: Sequence[Job]) -> list[Learned | UserError]:
    """Evaluate the losses of requests on one base model and, unless they are forward only, their gradients."""
    work = [_Work(base, job) for job in jobs]
    for forward_only in (False, True):
        pieces = (piece for one in work if one.job.request.forward_only is forward_only for piece in one.pieces())
        for batch in _passes(base, pieces):
            _run_pass(base, batch, forward_only=forward_only)
    return [one.finish() for one in work]


class _Work:
    """A request on its way."""

    def __init__(self, base: Base, job: Job) -> None:
        self.job = job
        self.base = base
        self.adapter = job.adapter if job.request.forward_only else job.adapter.leaf()
        self.error: UserError | None = None
        self.loss = 0.0
        self.logprobs: dict[int, Array] = {}
        """By index in the data, shaped like the targets."""
        self.metrics: dict[int, dict[str, float]] = {}
        """By index in the data, of a loss that couples its tokens."""

    def pieces(self) -> Iterator["_Piece"]:
        """The micro-batches, none where the data are wrong."""
        base, data = self.base, self.job.request.data
        try:
            losses.check(
                self.job.chosen.loss, data, vocabulary=base.info.vocabulary, context_length=base.info.context_length
            )
        except UserError as error:
            self.error = error
            return
        batches = packed_batches if base.packs else padded_batches
        for columns in sorted({_columns(datum) for datum in data}):
            indices = [index for index, datum in enumerate(data) if _columns(datum) == columns]
            for batch in batches([data[index].tokens for index in indices], TOKENS_AT_ONCE):
                yield _Piece(self, [indices[i] for i in batch])

    def finish(self) -> Learned | UserError:
        if self.error is not None:
            return self.error
        loss, config = self.job.chosen
        request = self.job.request
        logprobs = [self.logprobs[index] for index in range(len(request.data))]
        gradient = {name: leaf.grad for name, leaf in self.adapter.parameters().items() if leaf.grad is not None}
        try:
            _check_finite(request, self.loss, logprobs, gradient)
            if isinstance(loss, losses.TokenLoss):
                about = losses.measured(loss, request.data, logprobs, config)
            else:
                about = reduced([self.metrics[index] for index in range(len(request.data))])
        except UserError as error:
            return error
        metrics = {
            "loss:sum": self.loss,
            "tokens:sum": float(sum(len(datum.tokens) for datum in request.data)),
            **about,
        }
        return Learned(ForwardBackwardResult([{"logprobs": values} for values in logprobs], metrics), gradient)


class _Piece:
    """A micro-batch: data of one request that go through the model together."""

    def __init__(self, work: _Work, indices: Sequence[int]) -> None:
        self.work = work
        self.indices = indices
        self.data = [work.job.request.data[index] for index in indices]
        sequences = [datum.tokens for datum in self.data]
        self.packed: Packed | None = pack(sequences) if work.base.packs else None
        if self.packed is not None:
            rows = np.concatenate(self.packed.rows)
            self.rows = len(self.packed.tokens)
        else:
            self.rows = sum(map(len, sequences))
            rows = np.arange(self.rows)
        self._order = np.argsort(rows, kind="stable")
        """[n]: of the tokens of the data one after the other, which comes first by row of states."""
        ids = self._by_row([datum.loss_inputs[losses.TARGETS] for datum in self.data], torch.long)
        self._targets = Targets(ids, torch.as_tensor(rows[self._order]).to(ids.device))

    def learn(self, states: Tensor, *, with_gradient: bool) -> Tensor | None:
        """Put loss and logprobs of states [rows, hidden] into the request's work; returns the states' gradient."""
        base, adapter, (loss, config) = self.work.base, self.work.adapter, self.work.job.chosen
        if isinstance(loss, losses.TokenLoss):
            terms = loss.terms
            inputs = {
                name: self._by_row([datum.loss_inputs[name] for datum in self.data], torch.float32)
                for name in loss.inputs
            }
            result = head.learn(
                base,
                adapter,
                states,
                self._targets,
                lambda logprobs, at: terms(logprobs, {name: values[at] for name, values in inputs.items()}, config),
                with_gradient=with_gradient,
            )
            self._keep(result.loss, self._by_datum(result.logprobs))
            return result.gradient
        assert isinstance(loss, losses.DatumLoss)
        logprobs = self._by_datum(head.logprobs(base, adapter, states, self._targets))
        found = losses.slopes(loss, self.data, logprobs, config, with_gradient=with_gradient)
        self._keep(found.loss, logprobs)
        self.work.metrics |= dict(zip(self.indices, found.metrics, strict=True))
        if found.slope is None:
            return None
        return head.backward(base, adapter, states, self._targets, found.slope[torch.as_tensor(self._order)])

    def _by_row(self, arrays: Sequence[Array], dtype: torch.dtype) -> Tensor:
        """Arrays [N_i] or [N_i, K] of the data, one row per token in the order of the states' rows, [n, K]."""
        joined = np.concatenate([array.reshape(len(array), -1) for array in arrays])[self._order]
        return torch.as_tensor(joined).to(self.work.base.device, dtype)

    def _by_datum(self, values: Tensor) -> Tensor:
        """The inverse: from the order of the states' rows to that of the data."""
        restored = torch.empty_like(values)
        restored[torch.as_tensor(self._order)] = values
        return restored

    def _keep(self, loss: float, logprobs: Tensor) -> None:
        self.work.loss += loss
        parts = torch.split(logprobs.cpu(), [len(datum.tokens) for datum in self.data])
        for index, datum, part in zip(self.indices, self.data, parts, strict=True):
            self.work.logprobs[index] = part.numpy().reshape(datum.loss_inputs[losses.TARGETS].shape).copy()


def _columns(datum: Datum) -> int:
    targets = datum.loss_inputs[losses.TARGETS]
    return 1 if targets.ndim == 1 else int(targets.shape[1])


def _passes(base: Base, pieces: Iterator[_Piece]) -> Iterator[list[_Piece]]:
    """Consecutive micro-batches as long as they fit; a base that does not pack takes one at a time."""
    batch: list[_Piece] = []
    for piece in pieces:
        if batch and (not base.packs or sum(one.rows for one in batch) + piece.rows > TOKENS_AT_ONCE):
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


def _run_pass(base: Base, pieces: Sequence[_Piece], *, forward_only: bool) -> None:
    recompute = not forward_only and sum(piece.rows for piece in pieces) > TOKENS_AT_ONCE
    with torch.set_grad_enabled(not forward_only):
        states = _states(base, pieces, recompute=recompute)
    gradients = []
    for piece, part in zip(pieces, torch.split(states.detach(), [piece.rows for piece in pieces]), strict=True):
        gradient = None
        if piece.work.error is None:
            try:
                with torch.no_grad():
                    gradient = piece.learn(part, with_gradient=not forward_only)
            except UserError as error:
                piece.work.error = error
        gradients.append(torch.zeros_like(part) if gradient is None else gradient)
    if states.requires_grad:
        with base.routed(_spans(pieces)):
            states.backward(torch.cat(gradients))  # type: ignore[no-untyped-call]


def _spans(pieces: Sequence[_Piece]) -> list[Span]:
    """Whose rows of a pass are whose: packed rows are tokens, padded ones sequences."""
    return [Span(piece.work.adapter, piece.rows if piece.packed else len(piece.data)) for piece in pieces]


def _states(base: Base, pieces: Sequence[_Piece], *, recompute: bool) -> Tensor:
    """Final hidden states of the pieces' rows, [rows, hidden]."""
    packed = [piece.packed for piece in pieces if piece.packed is not None]
    if not packed:
        (piece,) = pieces
        padded = base.pad([datum.tokens for datum in piece.data])
        return base.hidden(padded.tokens, _spans(pieces), recompute=recompute)[padded.real]
    tokens, positions = (
        torch.as_tensor(np.concatenate(arrays)).to(base.device)[:, None]
        for arrays in ([part.tokens for part in packed], [part.positions for part in packed])
    )
    plan = Plan(packed, base.device, base.dtype)
    return base.hidden(tokens, _spans(pieces), positions=positions, mask=plan, recompute=recompute)[:, 0]


def _check_finite(
    request: ForwardBackward, total: float, logprobs: Sequence[Array], gradient: dict[str, Tensor]
) -> None:
    for index, values in enumerate(logprobs):
        if not np.isfinite(values).all():
            raise UserError(
                f"data[{index}] has logprobs that are not finite: the weights of {request.model_id!r} have diverged; "
                "go back to an earlier checkpoint and lower the learning rate."
            )
    extremes = [end for values in gradient.values() for end in torch.aminmax(values)]
    if not np.isfinite(total) or not all(torch.isfinite(torch.stack(extremes)) if extremes else ()):
        raise UserError(
            f"the {request.loss_fn} loss of this request is {total} or its gradient is not finite, so it was left out; "
            "look for extreme weights, advantages or logprobs in data."
        )
