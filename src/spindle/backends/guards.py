"""Fences around a plugin's functions: a mistake in one fails its request with a sentence, and harms no model."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from spindle.backends.contract import UserError
from spindle.backends.losses import Config, DatumLoss, Inputs, Loss, TokenLoss
from spindle.backends.optimizers import Family, Update

_METRIC = re.compile(r"[^:]+:(sum|mean|min|max)")
_Given = TypeVar("_Given")


def guarded_loss(path: Path, loss: Loss) -> Loss:
    """The loss, with what its functions return checked."""
    what = f"the loss {loss.name!r} of plugin {path}"
    if isinstance(loss, TokenLoss):
        metrics = None if loss.metrics is None else _guarded_metrics(what, loss.metrics)
        return replace(loss, terms=_guarded_terms(what, loss.terms), metrics=metrics)
    if isinstance(loss, DatumLoss):
        return replace(loss, datum=_guarded_datum(what, loss.datum))
    return loss


def guarded_family(path: Path, family: Family) -> Family:
    """The family, with a step that fails undone."""
    what = f"the optimizer {family.name!r} of plugin {path}"

    def step(update: Update) -> Mapping[str, float]:
        parameters = update.adapter.parameters()
        before = {name: parameter.clone() for name, parameter in parameters.items()}
        state = {name: tensor.clone() for name, tensor in update.state.items()}
        try:
            return _called(what, lambda: {name: float(value) for name, value in family.step(update).items()})
        except UserError:
            for name, parameter in parameters.items():
                parameter.copy_(before[name])
            update.state.clear()
            update.state.update(state)
            raise

    return replace(family, step=step)


def _guarded_terms(
    what: str, terms: Callable[[Tensor, Inputs, Config], Tensor]
) -> Callable[[Tensor, Inputs, Config], Tensor]:
    def guarded(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
        found = _called(what, lambda: terms(logprobs, inputs, config))
        if not isinstance(found, Tensor) or found.shape != logprobs.shape:
            shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise UserError(f"{what} gave {shape} for logprobs {list(logprobs.shape)}; correct the plugin.")
        return found

    return guarded


def _guarded_datum(
    what: str, datum: Callable[[Tensor, Inputs, Config], tuple[Tensor, dict[str, float]]]
) -> Callable[[Tensor, Inputs, Config], tuple[Tensor, dict[str, float]]]:
    def checked(logprobs: Tensor, inputs: Inputs, config: Config) -> tuple[Tensor, dict[str, float]]:
        value, metrics = datum(logprobs, inputs, config)
        if not isinstance(value, Tensor) or value.ndim:
            raise UserError(f"{what} did not give a scalar tensor; correct the plugin.")
        return value, _checked(what, metrics)

    return lambda logprobs, inputs, config: _called(what, lambda: checked(logprobs, inputs, config))


def _guarded_metrics(
    what: str, metrics: Callable[[Tensor, Inputs, Config], dict[str, float]]
) -> Callable[[Tensor, Inputs, Config], dict[str, float]]:
    return lambda logprobs, inputs, config: _called(what, lambda: _checked(what, metrics(logprobs, inputs, config)))


def _checked(what: str, metrics: Mapping[str, float]) -> dict[str, float]:
    wrong = [name for name in metrics if not _METRIC.fullmatch(name)]
    if wrong:
        raise UserError(f"{what} gave the metric {wrong[0]!r}; call it NAME:sum, NAME:mean, NAME:min or NAME:max.")
    return {name: float(value) for name, value in metrics.items()}


def _called(what: str, call: Callable[[], _Given]) -> _Given:
    try:
        return call()
    except UserError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise UserError(f"{what} failed ({type(error).__name__}: {text}); correct the plugin.") from error
