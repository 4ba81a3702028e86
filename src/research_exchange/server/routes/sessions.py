"""Sessions: a runner begins one, and ends it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse

from research_exchange.server.dependencies import EndOfSession, ExchangeService, end_of_session
from research_exchange.server.guards import runner_only

routes = APIRouter()


@routes.post("/runs/{run_id}/sessions", dependencies=[Depends(runner_only)])
def start_session(run_id: str, exchange: ExchangeService) -> Response:
    return JSONResponse({"session": exchange.start_session(run_id)}, status_code=201)


@routes.post("/runs/{run_id}/sessions/{session_id}/end", dependencies=[Depends(runner_only)])
def end_session(
    run_id: str, session_id: str, form: Annotated[EndOfSession, Depends(end_of_session)], exchange: ExchangeService
) -> Response:
    exchange.end_session(run_id, session_id, form.exit_code, form.reason)
    return JSONResponse({"session": session_id})
