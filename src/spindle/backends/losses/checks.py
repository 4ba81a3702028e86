"""The checks of a request's data: everything that a loss computes on is there, shaped and finite."""

from collections.abc import Sequence

import numpy as np

from spindle.backends.contract import Array, Datum, UserError
from spindle.backends.losses.kinds import DatumLoss, Loss

TARGETS = "target_tokens"


def check(loss: Loss, data: Sequence[Datum], *, vocabulary: int, context_length: int) -> None:
    """Raise `UserError` unless `loss` can be computed on every datum."""
    if not data:
        raise UserError("data is empty; send at least one datum.")
    for index, datum in enumerate(data):
        where = f"data[{index}]"
        check_tokens(datum.tokens, f"{where}.model_input", vocabulary=vocabulary)
        if len(datum.tokens) > context_length:
            raise UserError(
                f"{where}.model_input has {len(datum.tokens)} tokens, more than the model's context of "
                f"{context_length}; shorten it."
            )
        _check_inputs(loss, datum, f"{where}.loss_fn_inputs", vocabulary)


def check_tokens(tokens: Array, where: str, *, vocabulary: int) -> None:
    """Raise `UserError` unless `tokens` is a list of at least one token id of the model."""
    if tokens.ndim != 1 or tokens.size == 0:
        raise UserError(f"{where} must be a list of at least one token, found shape {list(tokens.shape)}.")
    _check_ids(tokens, where, vocabulary)


def _check_ids(tokens: Array, where: str, vocabulary: int) -> None:
    if not np.issubdtype(tokens.dtype, np.integer):
        raise UserError(f"{where} must be whole numbers, found {tokens.dtype}; send token ids as int64.")
    if tokens.size and (tokens.min() < 0 or tokens.max() >= vocabulary):
        outside = tokens[(tokens < 0) | (tokens >= vocabulary)][0]
        raise UserError(
            f"{where} has the token id {outside}, but the model's ids go from 0 to {vocabulary - 1}; "
            "encode with the model's own tokenizer."
        )


def _check_inputs(loss: Loss, datum: Datum, where: str, vocabulary: int) -> None:
    ranks = loss.ranks if isinstance(loss, DatumLoss) else {}
    for name in (TARGETS, *loss.inputs, *ranks):
        if name not in datum.loss_inputs:
            raise UserError(f"{where} lacks {name}, which {loss.name} needs.")
    targets = datum.loss_inputs[TARGETS]
    dimensions = (1, 2) if loss.several_targets else (1,)
    length = len(datum.tokens)
    if targets.ndim not in dimensions or targets.shape[0] != length or targets.size == 0:
        shapes = f"[{length}] or [{length}, K]" if loss.several_targets else f"[{length}]"
        raise UserError(
            f"{where}.{TARGETS} must have the shape {shapes}, one row per token of model_input, "
            f"found {list(targets.shape)}."
        )
    _check_ids(targets, f"{where}.{TARGETS}", vocabulary)
    for name in loss.inputs:
        values = datum.loss_inputs[name]
        if values.shape != targets.shape:
            raise UserError(
                f"{where}.{name} must have the shape of {TARGETS}, {list(targets.shape)}, found {list(values.shape)}."
            )
        _check_finite(values, f"{where}.{name}")
    for name, rank in ranks.items():
        values = datum.loss_inputs[name]
        if values.ndim != rank:
            raise UserError(f"{where}.{name} must have {rank} dimensions, found the shape {list(values.shape)}.")
        _check_finite(values, f"{where}.{name}")


def _check_finite(values: Array, where: str) -> None:
    if not np.isfinite(values).all():
        position = np.argwhere(~np.isfinite(values))[0].tolist()
        raise UserError(f"{where}{position} is {values[tuple(position)]}; send finite numbers.")
