"""Runs: create one or repeat one, list them, read one; call it off, queue it again, hand its runner a fresh token."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from research_exchange.documents.json import JsonValue
from research_exchange.server.dependencies import (
    ExchangeService,
    NewRun,
    Offset,
    Page,
    Reason,
    new_run,
    reason_of,
)
from research_exchange.server.guards import WhoAsks, researcher_only
from research_exchange.server.launching import Launched
from research_exchange.server.listing import ListedRun, RunStanding, list_runs
from research_exchange.server.routes.answers import listing
from research_exchange.server.routes.described import UPDATE, answers
from research_exchange.server.views import cancellation_json, entry_json, run_json, run_summary_json

routes = APIRouter(tags=["runs"])

_AT = "2026-03-01T12:00:00.000Z"
_LAUNCHED: JsonValue = {
    "id": "run_0123456789",
    "run": "run_0123456789",
    "spec_id": "exp_0123456789",
    "token": "rxr_…",
}
_LISTED: dict[str, JsonValue] = {
    "id": "run_0123456789",
    "spec_id": "exp_0123456789",
    "title": "Trained against untrained adapter on addition",
    "launch_mode": "ordinary",
    "redo_of": None,
    "created_at": _AT,
    "phase": "ended",
    "state": "finished",
    "recorded_verdict": "supported",
    "outcome_reason": "supported",
    "withheld": False,
}
_READ: JsonValue = {
    **{
        name: value for name, value in _LISTED.items() if name not in ("recorded_verdict", "outcome_reason", "withheld")
    },
    "state": {"status": "succeeded", "final_update": 2, "metrics": {}, "arms": {}, "flags": []},
    "updates": [UPDATE],
    "updates_total": 1,
    "evidence": [],
    "refused": [],
    "sessions": [],
    "queue": [],
    "cancelled": None,
    "outcomes": [{"number": 1, "recorded_at": _AT, "cause": "final update 2", "validator_version": "2"}],
    "recorded": {"recorded_verdict": "supported"},
}
_QUEUED: JsonValue = {
    "queued_at": _AT,
    "not_before": _AT,
    "reason": "Somebody asked for another session.",
    "by": "tok_0123456789",
    "claimed_at": None,
    "claimed_by": None,
}


@routes.post(
    "/runs",
    status_code=201,
    dependencies=[Depends(researcher_only)],
    responses=answers(_LAUNCHED, 201),
)
def create_run(form: Annotated[NewRun, Depends(new_run)], who: WhoAsks, exchange: ExchangeService) -> Response:
    """Start a run of a saved spec version, and get its runner's token; with `queue` a worker takes it in its turn."""
    launched = exchange.runs.create(form.spec_id, form.launch_mode, who.actor, form.redo_of, queue=form.queue)
    return JSONResponse(launched_json(launched), status_code=201)


@routes.get("/runs", responses=answers({"runs": [_LISTED], "total": 1, "next": None}))
def get_runs(
    exchange: ExchangeService,
    limit: Page = 50,
    offset: Offset = 0,
    spec: str | None = None,
    state: RunStanding | None = None,
) -> Response:
    """Runs, newest first, each with where it stands and the verdict on record."""
    with exchange.store.reading() as reader:
        found = list_runs(reader, limit, offset, spec, state)
    return JSONResponse(listing("runs", [_listed_json(each) for each in found.runs], found.total, offset))


@routes.get("/runs/{run_id}", responses=answers(_READ))
def get_run(run_id: str, exchange: ExchangeService) -> Response:
    """What is on record of a run, and the state that its updates fold to.

    `updates` has the newest of them, 50 at most, in order of receipt, and `updates_total` says how many there are;
    `GET /api/runs/{run_id}/updates` has all, page by page.
    """
    return JSONResponse(run_json(exchange.view(run_id)))


@routes.post(
    "/runs/{run_id}/cancel",
    dependencies=[Depends(researcher_only)],
    responses=answers({"at": _AT, "by": "tok_0123456789", "reason": "Wrong model."}),
)
def cancel_run(
    run_id: str, form: Annotated[Reason, Depends(reason_of)], who: WhoAsks, exchange: ExchangeService
) -> Response:
    """Call a run off. Whoever asks again gets the first cancellation."""
    return JSONResponse(cancellation_json(exchange.cancel(run_id, who.actor, form.reason)))


@routes.post(
    "/runs/{run_id}/requeue",
    status_code=201,
    dependencies=[Depends(researcher_only)],
    responses=answers(_QUEUED, 201),
)
def requeue_run(
    run_id: str, form: Annotated[Reason, Depends(reason_of)], who: WhoAsks, exchange: ExchangeService
) -> Response:
    """Let a run wait for another session, from now on."""
    return JSONResponse(entry_json(exchange.queue.requeue(run_id, who.actor, form.reason)), status_code=201)


@routes.post(
    "/runs/{run_id}/token",
    status_code=201,
    dependencies=[Depends(researcher_only)],
    responses=answers(_LAUNCHED, 201),
)
def create_token(run_id: str, who: WhoAsks, exchange: ExchangeService) -> Response:
    """A fresh token for whoever resumes a run; earlier ones stay good until they end."""
    return JSONResponse(launched_json(exchange.runs.token(run_id, who.actor)), status_code=201)


def launched_json(launched: Launched) -> dict[str, JsonValue]:
    return {"id": launched.id, "run": launched.id, "spec_id": launched.spec_id, "token": launched.token}


def _listed_json(listed: ListedRun) -> dict[str, JsonValue]:
    recorded = listed.recorded
    return {
        **run_summary_json(listed.run),
        "state": listed.standing.value,
        "recorded_verdict": recorded.verdict if recorded else None,
        "outcome_reason": recorded.reason if recorded else None,
        "withheld": recorded.withheld if recorded else None,
    }
