"""Reading request bodies, within a size, into what they should be."""

import json
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from spindle.backends.contract import UserError
from spindle.control import Service
from spindle.wire.codec import MAX_BODY
from spindle.wire.requests import sentence

Shape = TypeVar("Shape", bound=BaseModel)


class Rejected(Exception):
    """A request that cannot be read at all, and so gets no promise."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def service_of(request: Request) -> Service:
    """The service behind the application."""
    service: Service = request.app.state.service
    return service


def owner_of(request: Request) -> str:
    """Whose key the request came with, as the key check found."""
    owner: str = request.state.owner
    return owner


async def read_body(request: Request) -> bytes:
    """The raw body, refused as soon as it grows past the limit."""
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BODY:
            raise Rejected(413, f"The body is longer than {MAX_BODY} bytes.")
    return bytes(content)


async def read_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object."""
    try:
        value = json.loads(await read_body(request))
    except (ValueError, RecursionError) as error:
        raise Rejected(400, f"The body is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise Rejected(400, f"The body is a JSON {type(value).__name__}; expected an object.")
    return value


def parse(shape: type[Shape], body: dict[str, Any]) -> Shape:
    """The body in its shape; `UserError` says what does not fit."""
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise UserError(sentence(error)) from error


async def read(request: Request, shape: type[Shape]) -> Shape:
    """The JSON body in its shape."""
    return parse(shape, await read_object(request))
