"""What each setting of a server takes, in words and as a check: the same for a file and for an option."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from spindle.control.keys import is_key
from spindle.control.limits import Limits


class Model(NamedTuple):
    """A base model to serve."""

    name: str
    path: Path | None
    """None for the one that is installed under the name."""

    def __str__(self) -> str:
        return self.name if self.path is None else f"{self.name}={self.path}"


@dataclass(frozen=True)
class Kind:
    """What a setting takes."""

    expected: str
    """In words, for people."""
    read: Callable[[Any, Path], object]
    """The value in force; relative paths start at the folder. Raises `ValueError` or `TypeError` for any other kind."""
    secret: bool = False
    """Whether a wrong value must not be shown."""


def read_model(text: object, folder: Path) -> Model:
    """NAME or NAME=PATH."""
    name, equals, path = _text(text).partition("=")
    if not name or (equals and not path):
        raise ValueError(text)
    return Model(name, _path(path, folder) if path else None)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(value)
    return value


def _path(value: object, folder: Path) -> Path:
    return (folder / Path(_text(value)).expanduser()).absolute()


def _matching(pattern: str) -> Callable[[object, Path], str]:
    def read(value: object, _: Path) -> str:
        if not re.fullmatch(pattern, _text(value)):
            raise ValueError(value)
        return _text(value)

    return read


def _whole(least: int, most: int | None = None) -> Kind:
    def read(value: object, _: Path) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least or (most and value > most):
            raise ValueError(value)
        return value

    return Kind(f"a whole number from {least}" + (f" to {most}" if most else ""), read)


def _seconds(value: object, _: Path) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise ValueError(value)
    return float(value)


def _list_of(read: Callable[[object, Path], object]) -> Callable[[object, Path], object]:
    def read_all(value: object, folder: Path) -> tuple[object, ...]:
        if not isinstance(value, list | tuple):
            raise TypeError(value)
        return tuple(read(item, folder) for item in value)

    return read_all


def _table(value: object, _: Path) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError(value)
    return value


def _key(value: object, _: Path) -> str:
    if not is_key(_text(value)):
        raise ValueError
    return _text(value)


KINDS: Mapping[str, Kind] = {
    "models": Kind("a list of NAME or NAME=PATH", _list_of(read_model)),
    "host": Kind("an address", lambda value, _: _text(value)),
    "port": _whole(0, 65535),
    "public_url": Kind("an http or https address", _matching(r"https?://[^\s/]+\S*")),
    "data": Kind("a path", _path),
    "device": Kind("auto, cpu, cuda or cuda:N", _matching(r"auto|cpu|cuda(:\d+)?")),
    "dtype": Kind("auto, float32 or bfloat16", _matching("auto|float32|bfloat16")),
    "threads": _whole(1),
    "plugins": Kind("a list of paths", _list_of(_path)),
    "grace": Kind("a number of seconds from 0", _seconds),
    "limits": Kind("a table", _table),
    "keys": Kind("a table", _table, secret=True),
    "keys_file": Kind("a path", _path),
}
"""By the setting's name in a file."""

LIMIT_KINDS = {limit.name: _whole(1) for limit in fields(Limits)}
KEY_KIND = Kind("text that starts with tml- and has at least 12 characters", _key, secret=True)
