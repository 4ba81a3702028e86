"""The pages of runs: a list of them, and one page for each with its JSON twin (R-220, R-223). None edits (R-224)."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import FileResponse, JSONResponse

from research_exchange.server import ApiError
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.guards import page_reader
from research_exchange.server.views import run_json
from research_exchange.web import presentation
from research_exchange.web.listing import list_runs
from research_exchange.web.rendering import Visiting

RUNS_PER_PAGE = 50

_HERE = Path(__file__).parent
_STATIC = {"style.css": "text/css", "live.js": "text/javascript"}

pages = APIRouter(include_in_schema=False, dependencies=[Depends(page_reader)])
assets = APIRouter(include_in_schema=False)
"""What a page is drawn with; the sign-in page needs it before anybody has signed in."""


@pages.get("/")
def runs(visit: Visiting, offset: Annotated[int, Query(ge=0, le=2**31)] = 0) -> Response:
    with visit.exchange.store.reading() as reader:
        listing = list_runs(reader, RUNS_PER_PAGE, offset)
    return visit.page("runs.html", listing=listing)


@pages.get("/runs/{run_id}.json")
def run_twin(run_id: str, exchange: ExchangeService) -> Response:
    """What the page of a run shows, as JSON."""
    view = exchange.view(run_id)
    return JSONResponse({**run_json(view), "judgment": view.judge().to_json()})


@pages.get("/runs/{run_id}")
def run(run_id: str, visit: Visiting) -> Response:
    try:
        page = presentation.run_page(visit.exchange.view(run_id))
    except ApiError as error:
        return visit.refusal(error.status, error.sentence)
    return visit.page("run.html", page=page, view=page.view, judgment=page.judgment)


@assets.get("/static/{name}")
def static(name: str) -> Response:
    if name not in _STATIC:
        raise ApiError(404, f"There is no file {name!r} here.")
    return FileResponse(_HERE / "static" / name, media_type=_STATIC[name], headers={"Cache-Control": "no-cache"})
