"""The loss that a request names, with its settings."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from spindle.backends.contract import UserError
from spindle.backends.losses.kinds import Config, Loss


class Chosen(NamedTuple):
    loss: Loss
    config: Config


def choose(name: str, given: Mapping[str, float | str], offered: Mapping[str, Loss]) -> Chosen:
    """The loss called `name`. Raises `UserError` for an unknown one, or for settings that it does not have."""
    loss = offered.get(name)
    if loss is None:
        raise UserError(f"loss_fn {name!r} is not offered here; choose one of {', '.join(offered)}.")
    return Chosen(loss, _settings(loss, given))


def _settings(loss: Loss, given: Mapping[str, float | str]) -> Config:
    settings = dict(loss.defaults)
    for name, value in given.items():
        if not loss.defaults:
            raise UserError(f"loss_fn {loss.name!r} takes no loss_fn_config, found {name}={value!r}; leave it out.")
        if name not in loss.defaults:
            known = ", ".join(f"{key} (default {default:g})" for key, default in loss.defaults.items())
            raise UserError(f"loss_fn {loss.name!r} has no setting {name!r} in loss_fn_config; it has {known}.")
        if isinstance(value, str) or not math.isfinite(value):
            raise UserError(
                f"loss_fn_config.{name} of {loss.name!r} must be a finite number "
                f"(default {loss.defaults[name]:g}), found {value!r}."
            )
        settings[name] = float(value)
    return settings
