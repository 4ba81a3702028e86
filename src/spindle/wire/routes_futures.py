"""Fetching what promises ended with."""

import asyncio
import json
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from spindle.backends.contract import ForwardBackwardResult, SampleResult
from spindle.control.lost import session_of
from spindle.control.promises import Failure
from spindle.control.results import Cells, Result
from spindle.wire.bodies import check_own, read, service_of
from spindle.wire.codec import write_forward_backward, write_sample
from spindle.wire.requests import PromiseAddress, RetrieveFutures
from spindle.wire.results import promise_result

router = APIRouter()
logger = logging.getLogger(__name__)

POLL = 30.0
"""Seconds a poll is held; clients give up on a reply after 45."""
PROTOBUF = "application/x-protobuf"

Outcome = TypeVar("Outcome")


class NanJson(JSONResponse):
    """JSON with NaN and Infinity in it, which clients read: a diverged run has such metrics."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()


@router.post("/retrieve_future")
async def retrieve_future(request: Request) -> Response:
    """The outcome of a promise, or 408 when there is none within `POLL` seconds."""
    body = await read(request, PromiseAddress)
    service = service_of(request)
    promise = service.promise(body.request_id)
    outcome = await _unless_stopped(request, promise.outcome(POLL))
    if outcome is None:
        pending = {"type": "try_again", "request_id": body.request_id, "queue_state": "active"}
        return JSONResponse(pending, 408)
    try:
        response = await _response(request, outcome, promise.cells)
    except Exception as error:  # a 500 here would be asked again at once, for ever
        logger.exception("A result could not be written")
        response = JSONResponse({"error": f"Spindle could not write the result ({error}).", "category": "server"})
    service.promises.fetched(body.request_id)
    return response


@router.post("/retrieve_futures")
async def retrieve_futures(request: Request) -> dict[str, Any]:
    """Which samples of one client ended since the cursor, as soon as there are any, or after `POLL` seconds."""
    body = await read(request, RetrieveFutures)
    service, target = service_of(request), body.target
    check_own(request, target.sampling_session_id)
    service.sessions.seen(session_of(target.sampling_session_id))
    timeout = POLL if body.timeout is None else min(max(body.timeout, 0.0), POLL)
    waiting = service.samplers.ended(target.sampling_session_id, target.cloned_sampler_id, body.prev_cursor, timeout)
    ended = await _unless_stopped(request, waiting) or []
    for request_id in body.retrieved_request_ids:
        if request_id.startswith(f"{target.sampling_session_id}:"):
            service.promises.forget(request_id)
    return {
        "completions": [
            {"state": "failed" if completion.failed else "finished", "request_id": completion.request_id}
            for completion in ended
        ],
        "cursor": ended[-1].cursor if ended else body.prev_cursor,
    }


@router.post("/cancel_future", status_code=204)
async def cancel_future(request: Request) -> Response:
    body = await read(request, PromiseAddress)
    service_of(request).promises.cancel(body.request_id)
    return Response(status_code=204)


async def _response(request: Request, outcome: Result | Failure, cells: Cells | None) -> Response:
    """In protobuf where there is a message for it and the client reads it."""
    protobuf = "protobuf" in request.headers.get("accept", "")
    match outcome:
        case Failure(error, category):
            return JSONResponse({"error": error, "category": category})
        case ForwardBackwardResult() if protobuf:
            return Response(await run_in_threadpool(write_forward_backward, outcome), media_type=PROTOBUF)
        case SampleResult() if protobuf:
            return Response(await run_in_threadpool(write_sample, outcome, cells), media_type=PROTOBUF)
        case _:
            return NanJson(promise_result(outcome))


async def _unless_stopped(request: Request, waiting: Coroutine[Any, Any, Outcome]) -> Outcome | None:
    """The outcome, or None once the server has stopped computing: no poll holds up its end."""
    stopped: asyncio.Event = request.app.state.stopped
    poll, stop = asyncio.create_task(waiting), asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({poll, stop}, return_when=asyncio.FIRST_COMPLETED)
        return poll.result() if poll.done() else None
    finally:
        poll.cancel()
        stop.cancel()
