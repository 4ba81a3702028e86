"""Whether an optimizer and its hyperparameters exist, are in range, and agree with what was fixed at creation."""

from collections.abc import Mapping
from dataclasses import replace

from spindle.backends.contract import OptimizerConfig, OptimizerStep, UserError
from spindle.backends.optimizers.kinds import Family, Value
from spindle.backends.optimizers.registry import ADAMW, UNPUBLISHED_FAMILIES


def settled(config: OptimizerConfig, offered: Mapping[str, Family]) -> OptimizerConfig:
    """What a new model gets: `config` with everything in it that cannot change later.

    Raises `UserError` for a family that is not offered or comes from another file, or a hyperparameter that it does
    not have.
    """
    family = offered.get(config.type)
    if family is None:
        reason = f" ({UNPUBLISHED_FAMILIES[config.type]})" if config.type in UNPUBLISHED_FAMILIES else ""
        raise UserError(
            f"optimizer type {config.type!r} is not offered here{reason}; choose one of {', '.join(offered)}."
        )
    if config.plugin_sha256 not in (None, family.plugin_sha256):
        raise UserError(
            f"optimizer {config.type!r} is wanted as it {_origin(config)}, but here it {_origin(family)}; start the "
            "server with that file."
        )
    for name, value in config.fixed.items():
        _check(family, name, value)
    chosen = {known.name: known.default for known in family.hyperparameters if known.fixed}
    return replace(config, fixed={**chosen, **config.fixed}, plugin_sha256=family.plugin_sha256)


def applied(step: OptimizerStep, config: OptimizerConfig, family: Family) -> dict[str, Value]:
    """Every hyperparameter of the family for one step: as sent, else as fixed at creation, else its default.

    Raises `UserError` for a step of another family, a value out of range, or another than was fixed at creation.
    """
    if step.family not in (None, family.name):
        raise UserError(
            f"this model was created with the optimizer {family.name!r}, but this optim_step is for {step.family!r}; "
            f"send parameters of {family.name!r}, or create a model with that optimizer."
        )
    for name, value in step.values.items():
        if family.find(name) is None and step.family is None and ADAMW.find(name) is not None:
            continue
        _check(family, name, value)
        fixed = config.fixed.get(name, value)
        if fixed != value:
            raise UserError(
                f"{name} was fixed at {fixed} when this model was created, but this optim_step says {value}; "
                f"send {fixed}, or create a model with another value."
            )
    return {
        known.name: step.values.get(known.name, config.fixed.get(known.name, known.default))
        for known in family.hyperparameters
    }


def check_restorable(saved: OptimizerConfig, config: OptimizerConfig) -> None:
    """Raise `UserError` unless a saved optimizer state was made by the very optimizer that would go on from it."""
    if saved.type != config.type:
        raise UserError(
            f"the saved optimizer state is of {saved.type!r}, but this model was created with {config.type!r}; load "
            f"the weights alone, or load it into a model of {saved.type!r}."
        )
    if saved.plugin_sha256 != config.plugin_sha256:
        raise UserError(
            f"the saved state of optimizer {saved.type!r} {_origin(saved)}, but here that optimizer {_origin(config)}; "
            "start the server with the file that made it, or load the weights alone."
        )


def _check(family: Family, name: str, value: Value) -> None:
    known = family.find(name)
    if known is None:
        raise UserError(f"optimizer {family.name!r} has no hyperparameter {name!r}; it has {family.known}.")
    if not known.allows(value):
        raise UserError(f"{name} must be {known.expected}, found {value}.")


def _origin(optimizer: OptimizerConfig | Family) -> str:
    sha256 = optimizer.plugin_sha256
    return f"comes from a plugin file with the SHA-256 {sha256}" if sha256 else "is built in"
