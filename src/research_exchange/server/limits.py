"""How much a request may carry (R-240, R-163), and reading a body under such a cap."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from research_exchange.server.errors import ApiError

MIB = 1024 * 1024
MAX_UPDATE_BYTES = 48 * MIB
"""R-240."""
MAX_SPEC_BYTES = 4 * MIB
MAX_CONTROL_BYTES = 64 * 1024
"""For the small documents that start runs and end sessions."""
MOST_SILENCE = 60.0
"""Seconds without a further byte of a body, after which its sender is taken for gone."""
MAX_PAGE = 200
"""Most rows of one listing."""
MAX_NEWEST = 50
"""Most rows of a list inside the answer about one thing; the list has an address of its own, which has all of them."""

_DISCARDED_BYTES = 64 * MIB
"""How much of an oversized body is read and dropped, so that its sender gets to read the refusal."""
MAX_DECLARED_BYTES = MAX_UPDATE_BYTES + _DISCARDED_BYTES
"""A request that declares more in its Content-Length is refused before anything of it is read."""

Form = TypeVar("Form", bound=BaseModel)


async def capped(chunks: AsyncIterable[bytes], limit: int) -> AsyncGenerator[bytes, None]:
    """A body piece by piece, until it has more than `limit` bytes.

    Raises:
        ApiError: 413 when it has more. Its rest is read and dropped, as far as that is reasonable. 408 when it stops.
    """
    total = 0
    async for chunk in _while_it_comes(chunks):
        total += len(chunk)
        if total <= limit:
            yield chunk
        elif total > limit + _DISCARDED_BYTES:
            break
    if total > limit:
        raise ApiError(413, f"This request may carry {limit:,} bytes at most; send less, or send it in parts.")


async def _while_it_comes(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    pieces = aiter(chunks)
    while True:
        try:
            async with asyncio.timeout(MOST_SILENCE):
                chunk = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise ApiError(408, f"Nothing more of the body came for {MOST_SILENCE:g} s; send it again.") from None
        yield chunk


async def read_body(request: Request, limit: int) -> bytes:
    """The body, never holding more than `limit` bytes of it.

    Raises:
        ApiError: 413 when there is more.
    """
    received = bytearray()
    async for chunk in capped(request.stream(), limit):
        received += chunk
    return bytes(received)


async def read_control(request: Request, form: type[Form], *, may_be_empty: bool = False) -> Form:
    """A small JSON body of a fixed form; where it may be empty, an empty one means the form's own values.

    Raises:
        ApiError: 422 when it has another form.
    """
    raw = await read_body(request, MAX_CONTROL_BYTES)
    if may_be_empty and not raw:
        return form()
    try:
        return form.model_validate_json(raw)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, found['loc'])) or 'body'}: {found['msg']}" for found in error.errors()]
        fields = ", ".join(form.model_fields)
        raise ApiError(422, f"The body must be a JSON object with the fields {fields}.", problems) from None
