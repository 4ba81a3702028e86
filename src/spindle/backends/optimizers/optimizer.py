"""The optimizer of one model."""

from collections.abc import Mapping

import torch
from torch import Tensor

from spindle.backends.lora import Adapter
from spindle.backends.optimizers.kinds import GRAD_CLIP_NORM, Family, Update, Value


class Optimizer:
    """A family at work on one adapter, and what it remembers."""

    def __init__(self, family: Family, adapter: Adapter) -> None:
        self.family = family
        self._adapter = adapter
        self._state: dict[str, Tensor] = {}

    def step(self, gradient: Mapping[str, Tensor], values: Mapping[str, Value], number: int) -> dict[str, float]:
        """Apply step `number` (from 1); a parameter without a gradient has a gradient of zero.

        Returns what was applied: every hyperparameter that is a number, `grad_norm` before clipping,
        `optimizer_step`, and the family's own measurements.
        """
        with torch.no_grad():
            parts = {
                name: gradient[name] if name in gradient else torch.zeros_like(parameter)
                for name, parameter in self._adapter.parameters().items()
            }
            norm = torch.nn.utils.get_total_norm(list(parts.values()))
            limit = float(values.get(GRAD_CLIP_NORM.name, 0.0))
            if limit > 0:
                factor = (limit / (norm + 1e-6)).clamp(max=1.0)
                parts = {name: part * factor for name, part in parts.items()}
            own = self.family.step(Update(self._adapter, parts, self._state, values, number))
        numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
        return {**own, **numbers, "grad_norm": float(norm), "optimizer_step": float(number)}

    def state(self) -> dict[str, Tensor]:
        """What the family remembers, by name; empty before the first step."""
        return dict(self._state)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state()` gave."""
        device = next(iter(self._adapter.parameters().values())).device
        self._state = {name: tensor.to(device, copy=True) for name, tensor in state.items()}
