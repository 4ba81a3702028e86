"""Hooks: whom the Exchange tells of a run's events, and what became of each message; for administrators."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from research_exchange.documents.json import JsonValue
from research_exchange.server.dependencies import ExchangeService, Offset, Page
from research_exchange.server.guards import WhoAsks, admin_only
from research_exchange.server.hooks import shown_url
from research_exchange.server.limits import read_control
from research_exchange.server.routes.answers import listing
from research_exchange.server.routes.described import answers
from research_exchange.server.views import moment
from research_exchange.store import DeliveryRecord, HookKind, HookRecord

_AT = "2026-03-01T12:00:00.000Z"
_HOOK: JsonValue = {
    "id": "hook_0123456789",
    "kind": "webhook",
    "url": "https://lab.example.org/…",
    "secret": "RX_HOOK_LAB",
    "events": ["run.ended", "gate.failed"],
    "created_at": _AT,
    "removed_at": None,
}
_DELIVERY: JsonValue = {
    "number": 1,
    "run": "run_0123456789",
    "event": "run.ended#1",
    "at": _AT,
    "attempts": 1,
    "status": "delivered",
    "detail": "answered 204",
}

routes = APIRouter(tags=["hooks"], dependencies=[Depends(admin_only)])


class NewHook(BaseModel):
    """The body of `POST /api/hooks`: a webhook has a url and a secret, a Slack hook neither."""

    model_config = ConfigDict(extra="forbid")
    kind: HookKind
    url: Annotated[str, Field(max_length=2000)] | None = None
    secret: Annotated[str, Field(max_length=80)] | None = None
    """Name of the environment variable with the secret: `RX_HOOK_…`."""
    events: Annotated[list[str], Field(max_length=10)] = []


async def new_hook(request: Request) -> NewHook:
    return await read_control(request, NewHook)


@routes.post("/hooks", status_code=201, responses=answers(_HOOK, 201))
def add_hook(form: Annotated[NewHook, Depends(new_hook)], who: WhoAsks, exchange: ExchangeService) -> Response:
    """Have somebody told of what happens to runs, by a signed request or in Slack."""
    hook = exchange.hooks.add(form.kind, who, url=form.url, secret=form.secret, events=form.events)
    return JSONResponse(hook_json(hook), status_code=201)


@routes.get("/hooks", responses=answers({"hooks": [_HOOK], "total": 1, "next": None}))
def list_hooks(exchange: ExchangeService, limit: Page = 50, offset: Offset = 0) -> Response:
    """Who is told of what happens to runs, oldest first."""
    hooks, total = exchange.hooks.page(limit, offset)
    return JSONResponse(listing("hooks", [hook_json(hook) for hook in hooks], total, offset))


@routes.delete("/hooks/{hook_id}", responses=answers(_HOOK))
def remove_hook(hook_id: str, who: WhoAsks, exchange: ExchangeService) -> Response:
    """Tell nobody there any more."""
    return JSONResponse(hook_json(exchange.hooks.remove(hook_id, who)))


@routes.get("/hooks/{hook_id}/deliveries", responses=answers({"deliveries": [_DELIVERY], "total": 1, "next": None}))
def list_deliveries(hook_id: str, exchange: ExchangeService, limit: Page = 50, offset: Offset = 0) -> Response:
    """What it was told or is to be told, newest first."""
    deliveries, total = exchange.hooks.deliveries(hook_id, limit, offset)
    return JSONResponse(listing("deliveries", [_delivery_json(each) for each in deliveries], total, offset))


def hook_json(hook: HookRecord) -> dict[str, JsonValue]:
    """Of its address only the host is shown: the rest may be as good as a password."""
    return {
        "id": hook.id,
        "kind": hook.kind.value,
        "url": shown_url(hook),
        "secret": hook.secret_ref,
        "events": [*hook.events],
        "created_at": moment(hook.created_at),
        "removed_at": moment(hook.removed_at) if hook.removed_at else None,
    }


def _delivery_json(delivery: DeliveryRecord) -> dict[str, JsonValue]:
    return {
        "number": delivery.number,
        "run": delivery.run_id,
        "event": delivery.event,
        "at": moment(delivery.at),
        "attempts": delivery.attempts,
        "status": delivery.status.value,
        "detail": delivery.detail,
    }
