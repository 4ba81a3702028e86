"""Tokens and the audit log: for administrators (R-241)."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from research_exchange.documents.json import JsonValue
from research_exchange.server.dependencies import ExchangeService, Offset, Page
from research_exchange.server.guards import WhoAsks, admin_only
from research_exchange.server.limits import read_control
from research_exchange.server.routes.answers import listing
from research_exchange.server.routes.described import answers
from research_exchange.server.tokens import MAX_DAYS
from research_exchange.server.views import moment
from research_exchange.store import AuditRecord, Role, TokenRecord

_AT = "2026-03-01T12:00:00.000Z"
_TOKEN: dict[str, JsonValue] = {
    "id": "tok_0123456789",
    "role": "researcher",
    "name": "Ada",
    "run": None,
    "created_at": _AT,
    "expires_at": None,
    "revoked_at": None,
}
_DONE: JsonValue = {
    "number": 1,
    "at": _AT,
    "actor": "tok_0123456789",
    "action": "run.create",
    "subject": "run_0123456789",
    "detail": {"spec_id": "exp_0123456789"},
}

routes = APIRouter(tags=["tokens"], dependencies=[Depends(admin_only)])


class NewTokenForm(BaseModel):
    """The body of `POST /api/tokens`."""

    model_config = ConfigDict(extra="forbid")
    role: Role
    name: Annotated[str, Field(min_length=1, max_length=200)]
    run: str | None = None
    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] | None = None


async def new_token(request: Request) -> NewTokenForm:
    return await read_control(request, NewTokenForm)


@routes.post("/tokens", status_code=201, responses=answers({**_TOKEN, "token": "rxa_…"}, 201))
def give_token(form: Annotated[NewTokenForm, Depends(new_token)], who: WhoAsks, exchange: ExchangeService) -> Response:
    """The answer holds the token itself, in `token`: nobody can read it again."""
    given = exchange.tokens.give(form.role, form.name, who, run_id=form.run, days=form.days)
    headers = {"Cache-Control": "no-store"}
    return JSONResponse({**token_json(given.record), "token": given.secret}, status_code=201, headers=headers)


@routes.get("/tokens", responses=answers({"tokens": [_TOKEN], "total": 1, "next": None}))
def list_tokens(exchange: ExchangeService, run: str | None = None, limit: Page = 50, offset: Offset = 0) -> Response:
    """Tokens without their secrets, newest first; of one run where it is named."""
    tokens, total = exchange.tokens.page(limit, offset, run)
    return JSONResponse(listing("tokens", [token_json(token) for token in tokens], total, offset))


@routes.delete("/tokens/{token_id}", responses=answers(_TOKEN))
def revoke_token(token_id: str, who: WhoAsks, exchange: ExchangeService) -> Response:
    """From now on the token is no good."""
    return JSONResponse(token_json(exchange.tokens.revoke(token_id, who)))


@routes.get("/audit", responses=answers({"audit": [_DONE], "total": 1, "next": None}))
def list_audit(exchange: ExchangeService, subject: str | None = None, limit: Page = 50, offset: Offset = 0) -> Response:
    """Who did what, newest first."""
    with exchange.store.reading() as reader:
        entries, total = reader.audit(limit, offset, subject), reader.count_audit(subject)
    return JSONResponse(listing("audit", [audit_json(entry) for entry in entries], total, offset))


def token_json(token: TokenRecord) -> dict[str, JsonValue]:
    """Everything but the secret, which is not kept."""
    return {
        "id": token.id,
        "role": token.role.value,
        "name": token.name,
        "run": token.run_id,
        "created_at": moment(token.created_at),
        "expires_at": moment(token.expires_at) if token.expires_at else None,
        "revoked_at": moment(token.revoked_at) if token.revoked_at else None,
    }


def audit_json(entry: AuditRecord) -> dict[str, JsonValue]:
    return {
        "number": entry.number,
        "at": moment(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "detail": dict(entry.detail),
    }
