"""The pages: a list of runs, and one page for each run with its JSON twin (R-220, R-223). None edits (R-224)."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from research_exchange.server import ApiError
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.guards import page_reader
from research_exchange.server.views import run_json
from research_exchange.statistics import UNITS
from research_exchange.web import presentation
from research_exchange.web.listing import list_runs

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page may load: its own stylesheet and script, nothing inline and nothing from elsewhere."""
RUNS_PER_PAGE = 50

_HERE = Path(__file__).parent
_STATIC = {"style.css": "text/css", "live.js": "text/javascript"}

pages = APIRouter(include_in_schema=False, dependencies=[Depends(page_reader)])
assets = APIRouter(include_in_schema=False)
"""What a page is drawn with; the sign-in page needs it before anybody has signed in."""


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "signed", "size", "clock", "words", "value_text"):
        environment.filters[name] = getattr(presentation, name)
    environment.globals["unit_meanings"] = UNITS
    return environment


_TEMPLATES = _environment()


@pages.get("/")
def runs(exchange: ExchangeService, offset: Annotated[int, Query(ge=0, le=2**31)] = 0) -> Response:
    with exchange.store.reading() as reader:
        listing = list_runs(reader, RUNS_PER_PAGE, offset)
    return _page("runs.html", listing=listing)


@pages.get("/runs/{run_id}.json")
def run_twin(run_id: str, exchange: ExchangeService) -> Response:
    """What the page of a run shows, as JSON."""
    view = exchange.view(run_id)
    return JSONResponse({**run_json(view), "judgment": view.judge().to_json()})


@pages.get("/runs/{run_id}")
def run(run_id: str, exchange: ExchangeService) -> Response:
    try:
        page = presentation.run_page(exchange.view(run_id))
    except ApiError as error:
        return _page("error.html", status=error.status, sentence=error.sentence)
    return _page("run.html", page=page, view=page.view, judgment=page.judgment)


@assets.get("/static/{name}")
def static(name: str) -> Response:
    if name not in _STATIC:
        raise ApiError(404, f"There is no file {name!r} here.")
    return FileResponse(_HERE / "static" / name, media_type=_STATIC[name], headers={"Cache-Control": "no-cache"})


def _page(template: str, *, status: int = 200, **content: object) -> HTMLResponse:
    html = _TEMPLATES.get_template(template).render(status=status, **content)
    return HTMLResponse(html, status, {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-store"})
