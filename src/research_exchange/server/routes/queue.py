"""The queue: what waits and why, and taking the next run."""

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from research_exchange.documents.json import JsonValue
from research_exchange.server.dependencies import ExchangeService, Offset, Page
from research_exchange.server.guards import WhoAsks, researcher_only
from research_exchange.server.listing import ListedRun
from research_exchange.server.queueing import Waiting
from research_exchange.server.routes.answers import listing
from research_exchange.server.routes.described import answers
from research_exchange.server.routes.runs import launched_json
from research_exchange.server.views import moment

routes = APIRouter(tags=["queue"])

_QUEUE: JsonValue = {
    "queue": [
        {
            "run": "run_0123456789",
            "spec_id": "exp_0123456789",
            "title": "Trained against untrained adapter on addition",
            "queued_at": "2026-03-01T12:00:00.000Z",
            "not_before": "2026-03-01T12:15:00.000Z",
            "reason": "The training service had no capacity. A fresh session may start after 15 minutes.",
            "by": "exchange",
            "waits": "Not before 2026-03-01 12:15 UTC. The training service had no capacity.",
        }
    ],
    "total": 1,
    "next": None,
    "waiting_for_a_person": [],
}


@routes.get("/queue", responses=answers(_QUEUE))
def get_queue(exchange: ExchangeService, limit: Page = 50, offset: Offset = 0) -> Response:
    """The runs that wait for a worker, the next one first, each with the reason.

    With every page come the runs that wait for a person to decide, of the 200 that ended last.
    """
    (waiting, total), held = exchange.queue.waiting(limit, offset), exchange.queue.held()
    for_a_person: list[JsonValue] = [_held_json(each) for each in held]
    rows = [_waiting_json(each) for each in waiting]
    return JSONResponse({**listing("queue", rows, total, offset), "waiting_for_a_person": for_a_person})


@routes.post(
    "/queue/claim",
    dependencies=[Depends(researcher_only)],
    responses=answers({"run": None}),
)
def claim(who: WhoAsks, exchange: ExchangeService) -> Response:
    """Take the next run that is due, with a token for its runner; `run` is null while none is. Nobody else gets it."""
    launched = exchange.queue.claim(who.actor)
    return JSONResponse({"run": None} if launched is None else launched_json(launched))


def _waiting_json(waiting: Waiting) -> dict[str, JsonValue]:
    entry, run = waiting.queued.entry, waiting.queued.run
    return {
        "run": run.id,
        "spec_id": run.spec_id,
        "title": run.title,
        "queued_at": moment(entry.queued_at),
        "not_before": moment(entry.not_before),
        "reason": entry.reason,
        "by": entry.by,
        "waits": waiting.why,
    }


def _held_json(listed: ListedRun) -> dict[str, JsonValue]:
    assert listed.recorded is not None, "a run is held by what is on record of it"
    return {
        "run": listed.run.id,
        "spec_id": listed.run.spec_id,
        "title": listed.run.title,
        "waits": f"For a person to decide. {listed.recorded.waits_for_a_person}",
    }
