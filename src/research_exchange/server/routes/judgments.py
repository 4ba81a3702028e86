"""What the Exchange makes of a run: now, and on record."""

from fastapi import APIRouter, Depends, Response

from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.guards import runner_or_researcher

routes = APIRouter()


@routes.get("/runs/{run_id}/judgment")
def get_judgment(run_id: str, exchange: ExchangeService) -> Response:
    return Response(exchange.view(run_id).judge().canonical_bytes(), media_type="application/json")


@routes.post("/runs/{run_id}/judgment", dependencies=[Depends(runner_or_researcher)])
def record_judgment(run_id: str, exchange: ExchangeService) -> Response:
    return Response(exchange.record_judgment(run_id).judgment, media_type="application/json")
