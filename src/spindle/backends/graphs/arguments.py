"""The arguments of a node: JSON to Python values, with references to earlier nodes left in place."""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch

MOST_LEAVES = 512
"""Values in the arguments of one node."""
MOST_DEEP = 8
"""Lists within lists."""

DTYPES: Final = {
    name: getattr(torch, name)
    for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
}
_INTEGERS = 1 << 63
_FLOATS: Final = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_DEVICES: Final = {"cpu": torch.device("cpu")}
_LAYOUTS: Final = {"strided": torch.strided}
_FORMATS: Final = {"contiguous_format": torch.contiguous_format, "preserve_format": torch.preserve_format}
_TABLES: Final[dict[str, dict[str, Any]]] = {
    "float": _FLOATS,
    "dtype": DTYPES,
    "device": _DEVICES,
    "layout": _LAYOUTS,
    "memory_format": _FORMATS,
}


class EncodingError(Exception):
    """An argument that is not encoded as the client does; the text says how."""


class Ref(NamedTuple):
    """What the node of this name gave."""

    name: str


def decode(value: Any) -> Any:
    """One argument. Raises `EncodingError`."""
    return _Decoder().decode(value, 0)


def resolve(value: Any, find: Callable[[str], Any]) -> Any:
    """The argument with every reference replaced by what `find` gives for its name."""
    if isinstance(value, Ref):
        return find(value.name)
    if isinstance(value, list | tuple):
        return type(value)(resolve(item, find) for item in value)
    if isinstance(value, dict):
        return {key: resolve(item, find) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(resolve(item, find) for item in (value.start, value.stop, value.step)))
    return value


def references(value: Any) -> list[str]:
    """Names of the nodes that an argument refers to."""
    found: list[str] = []
    resolve(value, found.append)
    return found


class _Decoder:
    def __init__(self) -> None:
        self._leaves = 0

    def decode(self, value: Any, depth: int) -> Any:
        self._leaves += 1
        if self._leaves > MOST_LEAVES or depth > MOST_DEEP:
            raise EncodingError(f"has more than {MOST_LEAVES} values, or lists deeper than {MOST_DEEP}")
        if isinstance(value, dict):
            return self._decode_object(value, depth)
        if isinstance(value, list):
            return [self.decode(item, depth + 1) for item in value]
        if isinstance(value, int) and not -_INTEGERS <= value < _INTEGERS:
            raise EncodingError("has a whole number of more than 64 bits")
        return value

    def _decode_object(self, value: dict[str, Any], depth: int) -> Any:
        if len(value) != 1:
            raise EncodingError(f"has an object with {len(value)} keys where one says its kind")
        [(kind, content)] = value.items()
        match kind, content:
            case "ref", str():
                return Ref(content)
            case "tuple", list():
                return tuple(self.decode(item, depth + 1) for item in content)
            case "dict", dict():
                return {str(key): self.decode(item, depth + 1) for key, item in content.items()}
            case "slice", [start, stop, step]:
                return slice(*(self.decode(item, depth + 1) for item in (start, stop, step)))
            case "ellipsis", True:
                return ...
            case str(), str() if content in _TABLES.get(kind, {}):
                return _TABLES[kind][content]
        raise EncodingError(f"has {_short(value)}, which stands for nothing here")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
