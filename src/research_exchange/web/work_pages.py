"""The pages of work to do: the queue, two runs side by side, and the log of who did what (R-220, R-223)."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from research_exchange.server import ApiError
from research_exchange.server.agreeing import agreements
from research_exchange.server.guards import page_reader
from research_exchange.server.routes.queue import get_queue
from research_exchange.server.sign_in import safe_next
from research_exchange.store import Role
from research_exchange.web.rendering import Span, Visiting

PER_PAGE = 100

pages = APIRouter(include_in_schema=False, dependencies=[Depends(page_reader)])
open_pages = APIRouter(include_in_schema=False)
"""What is shown before anybody has signed in."""

Offset = Annotated[int, Query(ge=0, le=2**31)]


@pages.get("/queue")
def queue(visit: Visiting, offset: Offset = 0) -> Response:
    queueing = visit.exchange.queue
    waiting, total = queueing.waiting(PER_PAGE, offset)
    return visit.page("queue.html", waiting=waiting, span=Span(offset, PER_PAGE, total), held=queueing.held())


@pages.get("/queue.json")
def queue_twin(visit: Visiting, offset: Offset = 0) -> Response:
    return get_queue(visit.exchange, PER_PAGE, offset)


@pages.get("/runs/{run_id}/against/{other_id}.json")
def comparison_twin(run_id: str, other_id: str, visit: Visiting) -> Response:
    return JSONResponse(agreements(visit.exchange, run_id, other_id)[0].to_json())


@pages.get("/runs/{run_id}/against/{other_id}")
def comparison(run_id: str, other_id: str, visit: Visiting) -> Response:
    """A run, held against an earlier one."""
    try:
        agreement = agreements(visit.exchange, run_id, other_id)[0]
    except ApiError as error:
        return visit.refusal(error.status, error.sentence)
    return visit.page("comparison.html", agreement=agreement)


@pages.get("/audit")
def audit(visit: Visiting, offset: Offset = 0) -> Response:
    if visit.session is None or visit.session.caller.role is not Role.ADMIN:
        return RedirectResponse("/sign-in?next=/audit", 303)
    with visit.exchange.store.reading() as reader:
        rows, total = reader.audit(PER_PAGE, offset), reader.count_audit()
    return visit.page("audit.html", rows=rows, span=Span(offset, PER_PAGE, total))


@open_pages.get("/sign-in")
def sign_in(visit: Visiting, request: Request, refused: bool = False) -> Response:
    there = safe_next(request.query_params.get("next", "/"))
    return visit.page("sign_in.html", next=there, refused=refused, status=403 if refused else 200)
