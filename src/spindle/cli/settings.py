"""What a server is started with: a TOML file, and options that win over it."""

import difflib
import json
import shlex
import stat
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from spindle.cli.console import UsageProblemError
from spindle.cli.kinds import KEY_KIND, KINDS, LIMIT_KINDS, Kind, Model
from spindle.config import DEFAULT_GRACE, DEFAULT_HOST, DEFAULT_PORT
from spindle.control.limits import Limits
from spindle_whereabouts import data_directory


@dataclass(frozen=True)
class Settings:
    """One server."""

    models: tuple[Model, ...] = ()
    """Empty serves the default model, pulled when missing."""
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    """0 takes any free one."""
    public_url: str | None = None
    """Where clients reach the server from outside, for links it hands out; None for where each request came to."""
    data: Path | None = None
    """Checkpoints, the key, and pulled models; None for `$SPINDLE_DATA` or the platform's place."""
    device: str = "auto"
    dtype: str = "auto"
    """Of base weights and activations; adapters and optimizer states are float32 whatever it is."""
    threads: int | None = None
    """Of torch on a CPU; None leaves it to torch."""
    plugins: tuple[Path, ...] = ()
    """Files with optimizers and losses; they run with the server's rights."""
    grace: float = DEFAULT_GRACE
    """Seconds that the running computation may take to end when the server stops."""
    limits: Limits = field(default_factory=Limits)
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The key of each owner; empty for the one of `SPINDLE_API_KEY`, or else the one kept in the data folder."""
    keys_file: Path | None = None
    """A file of keys alone, which can be kept where others cannot read it."""
    file: Path | None = field(default=None, compare=False)
    """Where the settings were read."""

    @property
    def folder(self) -> Path:
        """The data folder in force."""
        return data_directory(self.data)


OPTIONS = {"models": "--model", "plugins": "--plugin", "limits": "--limit"} | {
    name: f"--{name.replace('_', '-')}" for name in KINDS if name not in ("models", "plugins", "limits", "keys")
}
"""The option of each setting; keys have none, since others can read the arguments of a process."""


def load(file: Path | None, options: Mapping[str, Any]) -> Settings:
    """The settings of a file, with options (None where not given) in their place.

    Raises:
        UsageProblemError: one sentence that names the file or option, the setting, what it takes and what was found.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    values = {} if file is None else _from_file(file)
    if "keys" in values and "keys_file" in values:
        raise UsageProblemError(f"{file}: keys and keys_file exclude each other; keep one of them.")
    if "keys_file" in chosen:
        values.pop("keys", None)
    limits = values.get("limits", {}) | _limits(chosen.pop("limits", ()))
    for name, value in chosen.items():
        values[name] = _checked(OPTIONS[name], KINDS[name], value, Path.cwd())
    if "keys_file" in values:
        values["keys"] = _keys(_toml(values["keys_file"]), f"{values['keys_file']}: ")
    _refuse_twins(model.name for model in values.get("models", ()))
    return Settings(**(values | {"limits": Limits(**limits), "file": file}))


def exposure(settings: Settings) -> str | None:
    """A warning where others on this machine can read the keys."""
    file = settings.keys_file or settings.file
    if not settings.keys or file is None or not file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return None
    return f"{file} holds keys and others on this machine can read it; `chmod 600 {shlex.quote(str(file))}` helps."


def in_force(settings: Settings) -> str:
    """The file that gives these settings, keys masked."""
    values = {name: getattr(settings, name) for name in KINDS if name not in ("limits", "keys", "keys_file")}
    values["data"] = settings.folder
    lines = [_line(name, value) for name, value in values.items()]
    lines += ["", "[limits]", *(_line(limit.name, getattr(settings.limits, limit.name)) for limit in fields(Limits))]
    if settings.keys:
        lines += ["", "[keys]", *(_line(owner, "tml-***") for owner in settings.keys)]
    return "\n".join(lines)


def _line(name: str, value: object) -> str:
    if value is None:
        return f"# {name} is not set"
    if isinstance(value, tuple):
        return f"{name} = {json.dumps([str(item) for item in value])}"
    return f"{name} = {value if isinstance(value, int | float) else json.dumps(str(value))}"


def _from_file(file: Path) -> dict[str, Any]:
    document = _toml(file)
    values: dict[str, Any] = {}
    for name, value in document.items():
        _known(name, KINDS, f"{file}: ", "setting")
        values[name] = _checked(f"{file}: {name}", KINDS[name], value, file.absolute().parent)
    for name, value in values.get("limits", {}).items():
        _known(name, LIMIT_KINDS, f"{file}: ", "limit")
        _checked(f"{file}: limits.{name}", LIMIT_KINDS[name], value, file)
    if "keys" in values:
        values["keys"] = _keys(values["keys"], f"{file}: keys.")
    return values


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageProblemError(f"{file} cannot be read ({error.strerror}); give the path of a TOML file.") from None
    except UnicodeDecodeError:
        raise UsageProblemError(f"{file} is not text in UTF-8; give a TOML file.") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageProblemError(f"{file} is not TOML: {error}.") from None


def _checked(where: str, kind: Kind, value: object, folder: Path) -> Any:
    try:
        return kind.read(value, folder)
    except (TypeError, ValueError):
        raise UsageProblemError(f"{where} must be {kind.expected}, found {_shown(value, kind.secret)}.") from None


def _known(name: str, names: Collection[str], where: str, what: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there is {', '.join(names)}."
        raise UsageProblemError(f"{where}{name!r} is no {what}; {meant}")


def _limits(arguments: Iterable[str]) -> dict[str, int]:
    limits = {}
    for argument in arguments:
        name, _, text = argument.partition("=")
        _known(name, LIMIT_KINDS, "--limit ", "limit")
        value = int(text) if text.strip().isascii() and text.strip().isdigit() else text
        limits[name] = _checked(f"--limit {name}", LIMIT_KINDS[name], value, Path.cwd())
    return limits


def _keys(table: Mapping[str, object], where: str) -> dict[str, str]:
    keys = {owner: _checked(f"{where}{owner}", KEY_KIND, key, Path()) for owner, key in table.items()}
    owners: dict[str, str] = {}
    for owner, key in keys.items():
        if key in owners:
            raise UsageProblemError(
                f"{where}{owner} is the key of {owners[key]} too; give each owner one of their own."
            )
        owners[key] = owner
    return keys


def _refuse_twins(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageProblemError(f"The model {name} is named twice; name it once.")
        seen.add(name)


def _shown(value: object, secret: bool) -> str:
    if isinstance(value, Mapping):
        return "a table"
    return f"a value of type {type(value).__name__}" if secret else repr(value)
