"""The pages of runs: their list, and for each its page, its updates, its spec and its briefs (R-220, R-223).

None of them edits anything (R-224).
"""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import FileResponse, JSONResponse

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.documents.spec import Spec
from research_exchange.documents.update import StoredUpdate
from research_exchange.presentation.figure import stylesheet
from research_exchange.server import ApiError
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.errors import unknown_run
from research_exchange.server.guards import page_reader
from research_exchange.server.listing import RunStanding, list_runs
from research_exchange.server.routes.answers import listing
from research_exchange.server.routes.runs import get_runs
from research_exchange.server.views import run_json, updates_json
from research_exchange.store import Reader, RunRecord
from research_exchange.web.rendering import RunPagesService, Span, Visit, Visiting
from research_exchange.web.run.lines import lines_of

RUNS_PER_PAGE, UPDATES_PER_PAGE = 50, 100
MAX_SHOWN_BYTES = 1024 * 1024
"""Of an update or a spec; a larger one is only offered as it is."""

_SCRIPT = Path(__file__).parent / "static" / "live.js"

pages = APIRouter(include_in_schema=False, dependencies=[Depends(page_reader)])
assets = APIRouter(include_in_schema=False)
"""What a page is drawn with; the sign-in page needs it before anybody has signed in."""

Offset = Annotated[int, Query(ge=0, le=2**31)]


@pages.get("/")
def runs(visit: Visiting, offset: Offset = 0, spec: str | None = None, state: RunStanding | None = None) -> Response:
    with visit.exchange.store.reading() as reader:
        found = list_runs(reader, RUNS_PER_PAGE, offset, spec, state)
    chosen = {name: value for name, value in (("spec", spec), ("state", state and state.value)) if value}
    return visit.page(
        "runs.html",
        runs=found.runs,
        span=Span(offset, RUNS_PER_PAGE, found.total),
        spec=spec,
        state=state,
        states=list(RunStanding),
        query=urlencode(chosen),
        of_spec=urlencode({"spec": spec}) if spec else "",
    )


@pages.get("/runs.json")
def runs_twin(
    exchange: ExchangeService, offset: Offset = 0, spec: str | None = None, state: RunStanding | None = None
) -> Response:
    return get_runs(exchange, RUNS_PER_PAGE, offset, spec, state)


@pages.get("/runs/{run_id}.json")
def run_twin(run_id: str, exchange: ExchangeService) -> Response:
    """What the page of a run shows, as JSON."""
    view = exchange.view(run_id)
    return JSONResponse({**run_json(view), "judgment": exchange.judging.judgment(view).to_json()})


@pages.get("/runs/{run_id}")
def run(run_id: str, visit: Visiting, run_pages: RunPagesService) -> Response:
    try:
        page = run_pages.page(run_id)
    except ApiError as error:
        return visit.refusal(error.status, error.sentence)
    return visit.page("run.html", page=page, view=page.view, judgment=page.judgment, panels=page.panels)


@pages.get("/runs/{run_id}/updates.json")
def updates_twin(run_id: str, exchange: ExchangeService, offset: Offset = 0) -> Response:
    """The newest updates first, as the page has them."""
    found = exchange.updates_of(run_id, UPDATES_PER_PAGE, offset, newest_first=True)
    return JSONResponse(listing("updates", updates_json(found.heads, found.malformed), found.total, offset))


@pages.get("/runs/{run_id}/updates")
def updates(run_id: str, visit: Visiting, offset: Offset = 0) -> Response:
    try:
        found = visit.exchange.updates_of(run_id, UPDATES_PER_PAGE, offset, newest_first=True)
    except ApiError as error:
        return visit.refusal(error.status, error.sentence)
    span = Span(offset, UPDATES_PER_PAGE, found.total)
    return visit.page("updates.html", view=found, heads=found.heads, span=span)


@pages.get("/runs/{run_id}/updates/{number}")
def update(run_id: str, number: int, visit: Visiting) -> Response:
    """An update line by line; every place that a rule speaks of has an address of its own."""
    try:
        with visit.exchange.store.reading() as reader:
            record, found = _run(reader, run_id), _update(reader, run_id, number)
            total = reader.count_updates(run_id)
    except ApiError as error:
        return visit.refusal(error.status, error.sentence)
    is_short = len(found.raw) <= MAX_SHOWN_BYTES
    return visit.page(
        "update.html",
        run=record,
        update=found,
        total=total,
        lines=lines_of(dict(found.body)) if is_short and found.body is not None else None,
        text=found.raw.decode(errors="replace") if is_short and found.body is None else None,
    )


@pages.get("/runs/{run_id}/spec")
def spec(run_id: str, visit: Visiting) -> Response:
    """The spec of a run line by line, for what a rule says of a place in it."""
    try:
        with visit.exchange.store.reading() as reader:
            record = _run(reader, run_id)
            raw = reader.spec(record.spec_id)
    except ApiError as error:
        return visit.refusal(error.status, error.sentence)
    assert raw is not None, "a foreign key says that every run has its spec"
    parsed = Spec.parse(raw.raw)
    return visit.page("run_spec.html", run=record, spec=parsed, lines=lines_of(dict(parsed.value)))


@pages.get("/runs/{run_id}/brief")
def brief(run_id: str, visit: Visiting, session: str | None = None) -> Response:
    """The brief that a session was given, byte for byte (R-051); that of the newest one where none is named."""
    try:
        with visit.exchange.store.reading() as reader:
            record = _run(reader, run_id)
            told = [each for each in reader.sessions(run_id) if each.brief_sha256 is not None]
        asked = [each for each in told if session in (None, each.id)]
        if session is not None and not asked:
            raise ApiError(404, f"Run {run_id} has no brief of a session {session!r}.")
        text, digest = _brief(visit, run_id, asked[-1].brief_sha256 if asked else None)
    except ApiError as error:
        return visit.refusal(error.status, error.sentence)
    given = asked[-1] if asked else None
    return visit.page("brief.html", run=record, text=text, sha256=digest, given=given, told=told)


@assets.get("/static/{name}")
def static(name: str) -> Response:
    headers = {"Cache-Control": "no-cache"}
    match name:
        case "style.css":
            return Response(stylesheet(), media_type="text/css", headers=headers)
        case "live.js":
            return FileResponse(_SCRIPT, media_type="text/javascript", headers=headers)
    raise ApiError(404, f"There is no file {name!r} here.")


def _run(reader: Reader, run_id: str) -> RunRecord:
    record = reader.run(run_id)
    if record is None:
        raise unknown_run(run_id)
    return record


def _update(reader: Reader, run_id: str, number: int) -> StoredUpdate:
    found = reader.update(run_id, number) if 0 < number < 2**31 else None
    if found is None:
        raise ApiError(404, f"Run {run_id} has no update {number}.")
    return found


def _brief(visit: Visit, run_id: str, kept: str | None) -> tuple[str, str]:
    """The text of a kept brief and its hash; where nobody was given one yet, as it would read now."""
    if kept is None:
        rendered = visit.exchange.sessions.brief(run_id, None)
        return rendered.text.decode(), rendered.sha256
    try:
        return visit.exchange.store.blobs.read(kept).decode(), kept
    except EvidenceLost as lost:
        raise ApiError(410, f"This brief is no longer what it was: found {lost}.") from None
