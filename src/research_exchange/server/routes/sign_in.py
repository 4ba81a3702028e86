"""Signing in and out with a browser; the page with the form is `research_exchange.web`'s."""

from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.errors import ApiError
from research_exchange.server.guards import OwnForm, SignedForm, holder, sign_ins_of
from research_exchange.server.sign_in import COOKIE, clear_cookie, safe_next, set_cookie
from research_exchange.store import Role

routes = APIRouter(include_in_schema=False)


@routes.post("/sign-in")
def sign_in(fields: OwnForm, request: Request, exchange: ExchangeService) -> Response:
    """Takes a token in the field `token`; goes on to the path in `next`, or back to the form when it is refused."""
    there = safe_next(fields.get("next", "/"))
    try:
        who = holder(request, exchange, fields.get("token", "").strip())
    except ApiError:
        who = None
    if who is None or who.role is Role.RUNNER:
        return _see_other(f"/sign-in?refused=1&next={quote(there, safe='')}")
    response = _see_other(there)
    set_cookie(response, sign_ins_of(request).begin(who))
    return response


@routes.post("/sign-out")
def sign_out(fields: SignedForm, request: Request) -> Response:
    sign_ins_of(request).end(request.cookies[COOKIE])
    response = _see_other("/")
    clear_cookie(response)
    return response


def _see_other(path: str) -> Response:
    return RedirectResponse(path, 303, {"Cache-Control": "no-store"})
