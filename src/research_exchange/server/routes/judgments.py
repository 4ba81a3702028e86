"""What the Exchange makes of a run: now, and on record."""

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from research_exchange.documents.json import JsonValue
from research_exchange.server.agreeing import agreements
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.guards import WhoAsks, overview_reader, runner_or_researcher
from research_exchange.server.routes.described import answers

routes = APIRouter(tags=["judgments"])

_JUDGMENT: JsonValue = {"recorded_verdict": "supported", "outcome_reason": "supported", "withheld": False, "gates": []}
"""The whole of it is described by `rx schema judgment`."""


@routes.get("/runs/{run_id}/judgment", responses=answers(_JUDGMENT))
def get_judgment(run_id: str, exchange: ExchangeService) -> Response:
    """The reading of what is there now; it changes only with what it is made from."""
    return Response(exchange.judging.judged(exchange.view(run_id)), media_type="application/json")


@routes.post("/runs/{run_id}/judgment", dependencies=[Depends(runner_or_researcher)], responses=answers(_JUDGMENT))
def record_judgment(run_id: str, who: WhoAsks, exchange: ExchangeService) -> Response:
    """Put the reading of this moment on record, after those that stand there (R-214)."""
    return Response(exchange.record_judgment(run_id, who.actor).judgment, media_type="application/json")


@routes.get(
    "/runs/{run_id}/agreement",
    dependencies=[Depends(overview_reader)],
    responses=answers({"run": "run_0123456789", "agreements": [{"standing": "agree"}]}),
)
def get_agreement(run_id: str, exchange: ExchangeService, against: str | None = None) -> Response:
    """Whether the result came out again: held against the run `against`, or the earlier runs of the same spec version.

    Rows are never merged: each run has its own verdict, from its own rows (R-006).
    """
    found = agreements(exchange, run_id, against)
    return JSONResponse({"run": run_id, "agreements": [agreement.to_json() for agreement in found]})
