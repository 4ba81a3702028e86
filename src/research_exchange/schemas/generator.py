"""From a typed definition to its JSON Schema (draft 2020-12)."""

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from research_exchange.documents.gates import Problem
from research_exchange.schemas.about import About

__all__ = ["JsonSchema", "json_schema"]

JsonSchema = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_ANY_JSON: Mapping[str, object] = {"JsonValue": object, "Mapping": Mapping, "Sequence": Sequence}
"""What the names in the alias of any JSON value stand for, wherever a record uses it."""
_SIMPLE: Mapping[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def json_schema(name: str, description: str, kind: object) -> JsonSchema:
    """The schema of a type, with everything it is made of under `$defs`.

    Raises:
        TypeError: for a type that has no JSON form.
    """
    made = _Definitions()
    root = made.record(kind) if _is_record(kind) else made.schema(kind)
    schema = {"$schema": _DRAFT, "title": name, **root, "description": description}
    return schema | ({"$defs": dict(sorted(made.definitions.items()))} if made.definitions else {})


class _Definitions:
    """The records met on the way, each once."""

    def __init__(self) -> None:
        self.definitions: dict[str, JsonSchema] = {}
        self._named: dict[str, object] = {}

    def schema(self, kind: Any) -> JsonSchema:
        origin, arguments = get_origin(kind), get_args(kind)
        if kind is object:
            return {}
        if origin is None and kind in _SIMPLE:
            return {"type": _SIMPLE[kind]}
        if origin in (NotRequired, Required):
            return self.schema(arguments[0])
        if origin is Annotated:
            return self._annotated(arguments[0], arguments[1:])
        if origin is Literal:
            return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
        if origin in (Union, types.UnionType):
            return self._any_of(arguments)
        if origin in (list, tuple, Sequence):
            return {"type": "array"} | _unless_empty("items", self.schema(arguments[0]))
        if origin is Mapping:
            return {"type": "object"} | _unless_empty("additionalProperties", self.schema(arguments[1]))
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"enum": [member.value for member in kind]}
        if _is_record(kind):
            return self._reference(kind)
        raise TypeError(f"{kind!r} has no JSON Schema.")

    def record(self, kind: Any) -> JsonSchema:
        """A typed dictionary, or a frozen record as `plain` writes it; open, since unknown keys are kept."""
        hints = get_type_hints(kind, localns=_ANY_JSON, include_extras=True)
        if is_dataclass(kind):
            shown = [field.name for field in fields(kind) if field.metadata.get("json", True)]
            hints = {name: hints[name] for name in shown} | ({"text": str} if kind is Problem else {})
            required = list(hints)
        else:
            required = [name for name in hints if name in kind.__required_keys__]
        schema: JsonSchema = {
            "type": "object",
            "description": " ".join((kind.__doc__ or "").split()),
            "properties": {name: self.schema(hint) for name, hint in hints.items()},
        }
        return schema | ({"required": required} if required else {})

    def _annotated(self, kind: Any, notes: Sequence[object]) -> JsonSchema:
        schema = self.schema(kind)
        for note in notes:
            if isinstance(note, About):
                schema |= note.keywords
        return schema

    def _any_of(self, kinds: Sequence[object]) -> JsonSchema:
        """One list of types where the alternatives say no more than their type."""
        schemas = [self.schema(kind) for kind in kinds]
        if all(schema.keys() == {"type"} for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}

    def _reference(self, kind: Any) -> JsonSchema:
        name = kind.__name__
        if self._named.setdefault(name, kind) is not kind:
            raise TypeError(f"{kind!r} and {self._named[name]!r} have one name.")
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = self.record(kind)
        return {"$ref": f"#/$defs/{name}"}


def _is_record(kind: object) -> bool:
    return is_typeddict(kind) or (isinstance(kind, type) and is_dataclass(kind))


def _unless_empty(keyword: str, schema: JsonSchema) -> JsonSchema:
    return {keyword: schema} if schema else {}
