"""A reader of the part of JSON Schema (draft 2020-12) that the published schemas use; any other keyword is refused."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_SILENT = {"$schema", "$defs", "title", "description"}


def faults(value: Any, schema: Any, root: Any | None = None, path: str = "$") -> Iterator[str]:
    """Where a value departs from a schema."""
    root = schema if root is None else root
    for keyword, wanted in schema.items():
        if keyword not in _SILENT:
            yield from _KEYWORDS[keyword](value, wanted, schema, root, path)


def _if(holds: bool, path: str, keyword: str) -> Iterator[str]:
    if not holds:
        yield f"{path}: {keyword}"


def _type(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    names = wanted if isinstance(wanted, list) else [wanted]
    return _if(any(_TYPES[name](value) for name in names), path, f"is no {' or '.join(names)}")


def _ref(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    return faults(value, root["$defs"][wanted.removeprefix("#/$defs/")], root, path)


def _any_of(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    answers = [list(faults(value, choice, root, path)) for choice in wanted]
    return iter(() if [] in answers else [fault for answer in answers for fault in answer])


def _properties(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    for name in value.keys() & wanted.keys() if isinstance(value, dict) else ():
        yield from faults(value[name], wanted[name], root, f"{path}.{name}")


def _additional(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    for name in value.keys() - schema.get("properties", {}).keys() if isinstance(value, dict) else ():
        yield from faults(value[name], wanted, root, f"{path}.{name}")


def _items(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        yield from faults(entry, wanted, root, f"{path}[{index}]")


def _required(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    missing = [name for name in wanted if isinstance(value, dict) and name not in value]
    return _if(not missing, path, f"lacks {missing}")


def _check(kinds: tuple[type, ...], holds: Callable[[Any, Any], bool], name: str) -> Callable[..., Iterator[str]]:
    def look(value: Any, wanted: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
        concerned = isinstance(value, kinds) and not isinstance(value, bool)
        return _if(not concerned or holds(value, wanted), path, f"{name} {wanted}")

    return look


def _same(value: Any, wanted: Any) -> bool:
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


_NUMBERS = (int, float)
_KEYWORDS: Mapping[str, Callable[..., Iterator[str]]] = {
    "type": _type,
    "$ref": _ref,
    "anyOf": _any_of,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "required": _required,
    "const": lambda value, wanted, schema, root, path: _if(_same(value, wanted), path, f"is not {wanted}"),
    "enum": lambda value, wanted, schema, root, path: _if(
        any(_same(value, choice) for choice in wanted), path, f"is none of {wanted}"
    ),
    "minimum": _check(_NUMBERS, lambda value, wanted: bool(value >= wanted), "minimum"),
    "maximum": _check(_NUMBERS, lambda value, wanted: bool(value <= wanted), "maximum"),
    "exclusiveMinimum": _check(_NUMBERS, lambda value, wanted: bool(value > wanted), "exclusiveMinimum"),
    "exclusiveMaximum": _check(_NUMBERS, lambda value, wanted: bool(value < wanted), "exclusiveMaximum"),
    "minItems": _check((list,), lambda value, wanted: len(value) >= wanted, "minItems"),
    "maxItems": _check((list,), lambda value, wanted: len(value) <= wanted, "maxItems"),
    "uniqueItems": _check((list,), lambda value, wanted: len(set(map(repr, value))) == len(value), "uniqueItems"),
    "minProperties": _check((dict,), lambda value, wanted: len(value) >= wanted, "minProperties"),
    "pattern": _check((str,), lambda value, wanted: re.search(wanted, value) is not None, "pattern"),
}
