"""The API's own description (OpenAPI): what FastAPI finds in the routes, and what only this Exchange knows.

Bodies are read under their caps by dependencies, so FastAPI does not see them; their forms are found here, in what
those dependencies return. Every refusal has one shape, and every route under `/api` takes a token in the same way.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_type_hints

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

_REFERENCE = "#/components/schemas/{model}"
_REFUSED = {"$ref": "#/components/responses/Refused"}
_SECURITY = {"token": {"type": "http", "scheme": "bearer", "description": "A token from `rx token give`."}}
_ERROR = {
    "type": "object",
    "required": ["error", "status"],
    "properties": {
        "error": {"type": "string", "description": "What is wrong and what to do, in a sentence."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "rule": {"type": "string", "description": "The rule behind it, where the sentence begins with one: R-240."},
        "problems": {"type": "array", "items": {"type": "string"}, "description": "What the rules found."},
    },
}


def _document(name: str) -> dict[str, Any]:
    return {"type": "object", "description": f"`rx schema {name}` prints its schema."}


def _file(**content: Any) -> dict[str, Any]:
    named = {name: {"type": "string"} for name in ("name", "kind", "sha256")}
    return {"schema": {"type": "object", "required": ["name", "kind"], "properties": {**named, **content}}}


_TEXT = {"type": "string"}
_BYTES = {"type": "string", "format": "binary"}
_BODIES: Mapping[str, Mapping[str, Any]] = {
    "/api/specs": {"application/json": {"schema": _document("spec")}},
    "/api/runs/{run_id}/updates": {"application/json": {"schema": _document("update")}},
    "/api/runs/{run_id}/evidence": {
        "application/octet-stream": {"schema": _BYTES},
        "multipart/form-data": _file(file=_BYTES),
        "application/json": _file(content=_TEXT, source_url=_TEXT),
    },
    "/api/runs/{run_id}/attachments": {"application/octet-stream": {"schema": _BYTES}},
    "/api/slack/events": {"application/json": {"schema": {"type": "object", "description": "As Slack sends it."}}},
}
"""Of routes whose bodies are documents and not forms, by media type."""


class DescribedApi(FastAPI):
    """An application whose description is completed when somebody first asks for it."""

    routers: Sequence[APIRouter] = ()
    """Those under `/api`."""

    def openapi(self) -> dict[str, Any]:
        is_new = self.openapi_schema is None
        found = super().openapi()
        if is_new:
            _complete(found, dict(_forms(self.routers)))
        return found


def _complete(found: dict[str, Any], forms: Mapping[tuple[str, str], type[BaseModel]]) -> None:
    parts = found.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    for model in ("HTTPValidationError", "ValidationError"):
        schemas.pop(model, None)
    schemas["Error"] = _ERROR
    content = {"application/json": {"schema": {"$ref": _REFERENCE.format(model="Error")}}}
    parts["responses"] = {"Refused": {"description": "What is wrong.", "content": content}}
    parts["securitySchemes"] = _SECURITY
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            operation["responses"] |= {"4XX": _REFUSED, "5XX": _REFUSED}
            if path.startswith("/api/") and not path.startswith("/api/slack/"):
                operation["security"] = [{"token": []}]
            if (path, method.upper()) in forms:
                operation["requestBody"] = _body(forms[path, method.upper()], schemas)
            elif method == "post" and path in _BODIES:
                operation["requestBody"] = {"required": True, "content": dict(_BODIES[path])}


def _forms(routers: Iterable[APIRouter]) -> Iterator[tuple[tuple[str, str], type[BaseModel]]]:
    """The form of each route's body, by path and method."""
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                for form in _returned(route.dependant):
                    yield from (((f"/api{route.path}", method), form) for method in route.methods or ())


def _returned(dependant: Dependant) -> Iterator[type[BaseModel]]:
    for each in dependant.dependencies:
        returns = get_type_hints(each.call).get("return") if each.call is not None else None
        if isinstance(returns, type) and issubclass(returns, BaseModel):
            yield returns


def _body(form: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = form.model_json_schema(ref_template=_REFERENCE)
    schemas |= schema.pop("$defs", {})
    schemas[form.__name__] = schema
    content = {"application/json": {"schema": {"$ref": _REFERENCE.format(model=form.__name__)}}}
    return {"required": bool(schema.get("required")), "content": content}
