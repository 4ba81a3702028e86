"""Reading request bodies, within a size, into what they should be."""

import json
import re
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from spindle.backends.contract import UserError
from spindle.control import Service
from spindle.wire.requests import sentence

Shape = TypeVar("Shape", bound=BaseModel)

IDS = ("session_id", "model_id", "sampling_session_id", "request_id")
"""Fields of a body that name a session, or something in one."""
SMALL = 65_536
"""Bytes of JSON that are read so soon that no other request notices."""
MOST_VALUES = 4_000_000
"""In a body of JSON, which takes up to 25 times its length in memory: "[]," does."""
DRAINED = 4
"""A body of up to this many times the limit is read to its end: a client that is cut off would send it again."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


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


def check_own(request: Request, identifier: str) -> None:
    """`NotFoundError` for the id of a session that another key opened, or of anything in one."""
    service_of(request).check_owner(identifier, owner_of(request))


async def read_body(request: Request) -> tuple[bytes, bool]:
    """The raw body, and whether that is all of it: beyond the limit the rest is dropped."""
    limit, length = service_of(request).limits.body_bytes, 0
    content = bytearray()
    async for piece in request.stream():
        content += piece[: limit - len(content)]
        length += len(piece)
        if length > DRAINED * limit:
            break
    return bytes(content), length <= limit


def too_long(request: Request) -> str:
    """What to say of a body beyond the limit."""
    limit = service_of(request).limits.body_bytes
    return f"The body is longer than {limit} bytes, the limit body_bytes of this server; send less in one request."


async def read_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object, whose ids are the sender's own."""
    body, whole = await read_body(request)
    if not whole:
        raise Rejected(413, too_long(request))
    value = await run_in_threadpool(_object, body) if len(body) > SMALL else _object(body)
    for name in IDS:
        if isinstance(identifier := value.get(name), str):
            check_own(request, identifier)
    return value


def _object(body: bytes) -> dict[str, Any]:
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > MOST_VALUES:
        raise Rejected(413, f"The body holds more than {MOST_VALUES} values of JSON; send less in one request.")
    try:
        text = body.decode()
        value = json.loads(text)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no character, and not to be kept
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
