"""Losses and optimizers from files that the configuration names. Nothing is ever discovered.

A plugin runs with the server's rights. What is executed is exactly what was hashed.
"""

import hashlib
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from spindle.backends.contract import PluginError, PluginInfo
from spindle.backends.guards import guarded_family, guarded_loss
from spindle.backends.losses import LOSSES, UNPUBLISHED_LOSSES, DatumLoss, Loss, TokenLoss
from spindle.backends.optimizers import FAMILIES, UNPUBLISHED_FAMILIES, Family

CUSTOM = "custom"
"""What requests call a loss that the client uploaded."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TAKEN = {"loss": {*LOSSES, *UNPUBLISHED_LOSSES, CUSTOM}, "optimizer": {*FAMILIES, *UNPUBLISHED_FAMILIES}}
"""Names that have a meaning already, here or in the Tinker client."""


@dataclass(frozen=True)
class Plugins:
    """What the plugin files of a server bring, by name."""

    files: tuple[PluginInfo, ...] = ()
    losses: Mapping[str, Loss] = field(default_factory=dict)
    families: Mapping[str, Family] = field(default_factory=dict)


def load(paths: Sequence[Path]) -> Plugins:
    """Execute plugin files in order. Raises `PluginError` with one sentence for the first that cannot be used."""
    files = []
    losses: dict[str, Loss] = {}
    families: dict[str, Family] = {}
    for path in paths:
        content = _read(path)
        sha256 = hashlib.sha256(content).hexdigest()
        module = _execute(path, content, sha256)
        found_losses = [_checked_loss(path, loss) for loss in _listed(path, module, "LOSSES")]
        found_families = [_checked_family(path, family) for family in _listed(path, module, "OPTIMIZERS")]
        if not found_losses and not found_families:
            raise PluginError(f"plugin {path} brings nothing; define LOSSES or OPTIMIZERS in it.")
        for loss in found_losses:
            _check_name(path, "loss", loss.name, losses)
            losses[loss.name] = guarded_loss(path, loss)
        for family in found_families:
            _check_name(path, "optimizer", family.name, families)
            families[family.name] = replace(guarded_family(path, family), plugin_sha256=sha256)
        provides = [f"loss {loss.name}" for loss in found_losses]
        provides += [f"optimizer {family.name}" for family in found_families]
        files.append(PluginInfo(path, sha256, tuple(provides)))
    return Plugins(tuple(files), losses, families)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PluginError(f"plugin {path} cannot be read ({error.strerror}); name an existing Python file.") from None


def _execute(path: Path, content: bytes, sha256: str) -> ModuleType:
    module = ModuleType(f"spindle_plugin_{sha256}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(content, str(path), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f" in line {lines[-1]}" if lines else ""
        text = " ".join(str(error).split())
        raise PluginError(
            f"plugin {path} cannot be imported ({type(error).__name__}{where}: {text}); correct it, or leave it out."
        ) from None
    return module


def _listed(path: Path, module: ModuleType, name: str) -> Sequence[Any]:
    value = getattr(module, name, ())
    if not isinstance(value, list | tuple):
        raise PluginError(f"plugin {path} defines {name} as {type(value).__name__}; make it a list.")
    return value


def _checked_loss(path: Path, loss: Any) -> Loss:
    if not isinstance(loss, TokenLoss | DatumLoss):
        raise PluginError(
            f"plugin {path} has {loss!r} in LOSSES; put a TokenLoss or a DatumLoss of spindle.plugins there."
        )
    if not callable(loss.terms if isinstance(loss, TokenLoss) else loss.datum):
        raise PluginError(f"plugin {path} gives the loss {loss.name!r} no function to compute it; add one.")
    return loss


def _checked_family(path: Path, family: Any) -> Family:
    if not isinstance(family, Family):
        raise PluginError(f"plugin {path} has {family!r} in OPTIMIZERS; put a Family of spindle.plugins there.")
    if not callable(family.step):
        raise PluginError(f"plugin {path} gives the optimizer {family.name!r} no function for its step; add one.")
    names = set()
    for known in family.hyperparameters:
        if known.name in names or not known.allows(known.default):
            raise PluginError(
                f"plugin {path}: the hyperparameter {known.name!r} of optimizer {family.name!r} must be listed once "
                f"and have a default that is {known.expected}, found {known.default!r}."
            )
        names.add(known.name)
    return family


def _check_name(path: Path, kind: str, name: Any, taken: Mapping[str, object]) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PluginError(
            f"plugin {path} has the {kind} name {name!r}; use lower-case letters, digits and underscores."
        )
    if name in _TAKEN[kind] or name in taken:
        owner = "another plugin" if name in taken else "Spindle or Tinker"
        raise PluginError(f"plugin {path} takes the {kind} name {name!r}, which belongs to {owner}; choose another.")
