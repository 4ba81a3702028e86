"""Where Slack posts its events; signed by Slack, so it asks for no token."""

from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Depends, Request, Response
from fastapi.responses import JSONResponse

from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.limits import MIB, read_body
from research_exchange.server.routes.described import answers
from research_exchange.server.slack import SlackIntake

MAX_EVENT_BYTES = MIB

routes = APIRouter(tags=["slack"])


async def event_body(request: Request) -> bytes:
    return await read_body(request, MAX_EVENT_BYTES)


@routes.post("/slack/events", responses=answers({"idea": "idea_0123456789"}))
def receive_event(
    body: Annotated[bytes, Depends(event_body)],
    request: Request,
    exchange: ExchangeService,
    afterwards: BackgroundTasks,
) -> Response:
    """An event of Slack's Events API; a message makes an idea, and a reply that starts with `triage:` sorts it."""
    outside = exchange.outside
    intake = SlackIntake(exchange.ideas, outside.slack, exchange.clock)
    received = intake.receive(body, request.headers)
    if received.new is not None:
        afterwards.add_task(intake.confirm, received.new, outside.page(f"/ideas/{received.new.record.id}"))
    return JSONResponse(dict(received.answer), background=afterwards)
