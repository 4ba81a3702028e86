"""What happens to a run, as it happens."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from research_exchange.server.access import Caller
from research_exchange.server.bell import TooManyWatchers
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.errors import ApiError, unknown_run
from research_exchange.server.events import Event, Position, events
from research_exchange.server.exchange import Exchange
from research_exchange.server.guards import PerhapsCaller, is_still_good
from research_exchange.server.routes.described import answers_bytes

routes = APIRouter(tags=["events"])

STILL_HERE_EVERY = 15.0
"""Seconds after which a stream says that it is alive, although nothing happened."""
COME_BACK_AFTER_MS = 2000

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@routes.get(
    "/runs/{run_id}/events",
    response_class=StreamingResponse,
    responses=answers_bytes("text/event-stream", "`id`, `event` and `data` of each event; the data is JSON."),
)
def get_events(
    run_id: str,
    exchange: ExchangeService,
    who: PerhapsCaller,
    last_event_id: Annotated[str | None, Header(max_length=200)] = None,
    since: Annotated[str | None, Query(max_length=200)] = None,
) -> StreamingResponse:
    """Server-sent events: all that was, then all that comes. With `Last-Event-ID`, what came after that event.

    A stream ends with the token that it was asked for with.

    `since` says the same for whoever cannot send that header at first, as a browser.

    Kinds: `session`, `update` (with its document, where that is small), `evidence`, `session_end`, `queued`,
    `cancelled` and `outcome`.
    """
    with exchange.store.reading() as reader:
        if reader.run(run_id) is None:
            raise unknown_run(run_id)
    return StreamingResponse(
        _stream(exchange, who, run_id, _position(last_event_id or since)), 200, _HEADERS, "text/event-stream"
    )


def _position(last: str | None) -> Position:
    try:
        return Position() if not last else Position.parse(last)
    except ValueError:
        sentence = "Last-Event-ID, or since, is not one that this stream gave out; leave it out to begin anew."
        raise ApiError(422, sentence) from None


async def _stream(exchange: Exchange, who: Caller | None, run_id: str, position: Position) -> AsyncIterator[bytes]:
    yield f"retry: {COME_BACK_AFTER_MS}\n\n".encode()
    try:
        with exchange.bell.listening(run_id, *([] if who is None else [who.actor])) as happened:
            spoke_at = time.monotonic()
            while not exchange.bell.is_closed:
                happened.clear()
                found = await run_in_threadpool(_read, exchange, who, run_id, position)
                if found is None:
                    return
                for event in found:
                    position, spoke_at = event.position, time.monotonic()
                    yield event.encode()
                while not found and not happened.is_set():
                    try:
                        await asyncio.wait_for(happened.wait(), spoke_at + STILL_HERE_EVERY - time.monotonic())
                    except TimeoutError:
                        spoke_at = time.monotonic()
                        yield b": still here\n\n"
    except TooManyWatchers:
        yield b": too many watch at the moment; come back later\n\n"


def _read(exchange: Exchange, who: Caller | None, run_id: str, since: Position) -> list[Event] | None:
    """None where nothing more is for the asker to read."""
    if who is not None and not is_still_good(exchange, who):
        return None
    with exchange.store.reading() as reader:
        return list(events(reader, run_id, since))
