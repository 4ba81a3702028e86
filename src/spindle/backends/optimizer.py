"""AdamW steps as torch.optim.AdamW takes them, with hyperparameters that may change from step to step."""

import math
from collections.abc import Mapping
from dataclasses import asdict

import torch
from torch import Tensor

from spindle.backends.contract import AdamParams, OptimizerConfig, UserError

FAMILIES = ("adamw",)

_MOMENTS = ("exp_avg", "exp_avg_sq")


def check_config(config: OptimizerConfig) -> None:
    """Raise `UserError` for an optimizer that is not offered or a hyperparameter it does not have."""
    if config.type not in FAMILIES:
        raise UserError(f"optimizer type {config.type!r} is not offered here; choose {', '.join(FAMILIES)}.")
    known = asdict(AdamParams())
    for name, value in config.fixed.items():
        if name not in known:
            raise UserError(f"optimizer {config.type} has no hyperparameter {name!r}; it has {', '.join(known)}.")
        if isinstance(value, str):
            raise UserError(f"optimizer {config.type}: {name} must be a number, found {value!r}.")
        _check_range(name, value)


def check_params(params: AdamParams, config: OptimizerConfig) -> None:
    """Raise `UserError` for values out of range, or others than those fixed at creation."""
    for name, value in asdict(params).items():
        _check_range(name, value)
        fixed = config.fixed.get(name, value)
        if fixed != value:
            raise UserError(
                f"{name} was fixed at {fixed} when this model was created, but this optim_step says {value}; "
                f"send {fixed}, or create a model without fixing it."
            )


def _check_range(name: str, value: float) -> None:
    below_one = name in ("beta1", "beta2")
    if not math.isfinite(value) or value < 0 or (below_one and value >= 1):
        expected = "at least 0 and below 1" if below_one else "finite and at least 0"
        raise UserError(f"{name} must be {expected}, found {value}.")


class AdamW:
    """The optimizer of one model."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = dict(parameters)
        self._torch = torch.optim.AdamW(self._parameters.values())

    def step(self, gradient: Mapping[str, Tensor], params: AdamParams) -> float:
        """Apply one step; a parameter without a gradient has a gradient of zero. Returns the norm before clipping."""
        for name, parameter in self._parameters.items():
            part = gradient.get(name)
            parameter.grad = torch.zeros_like(parameter) if part is None else part
        grads = [parameter.grad for parameter in self._parameters.values() if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads)
        if params.grad_clip_norm > 0:
            torch.nn.utils.clip_grads_with_norm_(self._parameters.values(), params.grad_clip_norm, norm)
        (group,) = self._torch.param_groups
        group.update(
            lr=params.learning_rate,
            betas=(params.beta1, params.beta2),
            eps=params.eps,
            weight_decay=params.weight_decay,
        )
        self._torch.step()
        self._torch.zero_grad(set_to_none=True)
        return float(norm)

    def state(self) -> dict[str, Tensor]:
        """The moments by `exp_avg.NAME` and `exp_avg_sq.NAME`; empty before the first step."""
        return {
            f"{moment}.{name}": self._torch.state[parameter][moment]
            for moment in _MOMENTS
            for name, parameter in self._parameters.items()
            if parameter in self._torch.state
        }

    def restore(self, state: Mapping[str, Tensor], step: int) -> None:
        """Go on from moments that `state()` gave after `step` steps."""
        self._torch.state.clear()
        if not state:
            return
        for name, parameter in self._parameters.items():
            moments = {moment: state[f"{moment}.{name}"].to(parameter.device, copy=True) for moment in _MOMENTS}
            self._torch.state[parameter] = {"step": torch.tensor(float(step)), **moments}
