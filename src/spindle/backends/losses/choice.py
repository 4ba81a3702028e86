"""The loss that a request names, with its settings."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from spindle.backends.contract import LARGEST, UserError
from spindle.backends.losses.formulas import HIGH, LOW
from spindle.backends.losses.kinds import Config, Loss
from spindle.backends.losses.registry import UNPUBLISHED_LOSSES


class Chosen(NamedTuple):
    loss: Loss
    config: Config


def choose(name: str, given: Mapping[str, float | str], offered: Mapping[str, Loss]) -> Chosen:
    """The loss called `name`. Raises `UserError` for an unknown one, or for settings that it does not have."""
    loss = offered.get(name)
    if loss is None:
        reason = f" ({UNPUBLISHED_LOSSES[name]})" if name in UNPUBLISHED_LOSSES else ""
        raise UserError(f"loss_fn {name!r} is not offered here{reason}; choose one of {', '.join(offered)}.")
    return Chosen(loss, _settings(loss, given))


def _settings(loss: Loss, given: Mapping[str, float | str]) -> Config:
    settings = dict(loss.defaults)
    for name, value in given.items():
        if name not in loss.defaults:
            known = ", ".join(f"{key} (default {default})" for key, default in loss.defaults.items()) or "none"
            raise UserError(
                f"loss_fn {loss.name!r} has no setting {name!r} in loss_fn_config; it has {known}. Leave it out."
            )
        if isinstance(value, str) or not abs(value) < LARGEST:
            raise UserError(
                f"loss_fn_config.{name} of {loss.name!r} must be a number within ±{LARGEST:g} "
                f"(default {loss.defaults[name]}), found {value!r}."
            )
        settings[name] = float(value)
    if settings.get(LOW, 0.0) > settings.get(HIGH, math.inf):
        raise UserError(
            f"loss_fn_config of {loss.name!r} has {LOW}={settings[LOW]} above {HIGH}={settings[HIGH]}; "
            "both bound the ratio, such as 0.8 and 1.2."
        )
    return settings
