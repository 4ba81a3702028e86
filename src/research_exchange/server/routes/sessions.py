"""Sessions: a runner begins one with its brief, says that it is alive, and ends it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from research_exchange.server.dependencies import (
    EndOfSession,
    ExchangeService,
    NewSession,
    end_of_session,
    new_session,
)
from research_exchange.server.guards import runner_only
from research_exchange.server.routes.answers import stored_bytes
from research_exchange.server.routes.described import answers, answers_bytes

routes = APIRouter(tags=["sessions"])


@routes.post(
    "/runs/{run_id}/sessions",
    status_code=201,
    dependencies=[Depends(runner_only)],
    responses=answers({"session": "ses_0123456789", "brief_sha256": "…"}, 201),
)
def begin_session(
    run_id: str, form: Annotated[NewSession, Depends(new_session)], exchange: ExchangeService
) -> Response:
    """Begin a session. Its brief is rendered and kept as it is now (R-051)."""
    begun = exchange.sessions.begin(run_id, form.runner, form.profile)
    return JSONResponse({"session": begun.session, "brief_sha256": begun.brief_sha256}, status_code=201)


@routes.post(
    "/runs/{run_id}/sessions/{session_id}/beat",
    dependencies=[Depends(runner_only)],
    responses=answers({"cancelled": False, "reason": None, "ended": None}),
)
def beat(run_id: str, session_id: str, exchange: ExchangeService) -> Response:
    """Say that a session is alive. After the first time, a session that falls silent is taken for dead (R-067)."""
    beat = exchange.sessions.beat(run_id, session_id)
    return JSONResponse({"cancelled": beat.cancelled, "reason": beat.reason, "ended": beat.ended})


@routes.post(
    "/runs/{run_id}/sessions/{session_id}/end",
    dependencies=[Depends(runner_only)],
    responses=answers({"session": "ses_0123456789"}),
)
def end_session(
    run_id: str, session_id: str, form: Annotated[EndOfSession, Depends(end_of_session)], exchange: ExchangeService
) -> Response:
    """End a session. Without a final update before it, what is finished counts as partial (R-067)."""
    exchange.sessions.end(run_id, session_id, form.exit_code, form.reason)
    return JSONResponse({"session": session_id})


@routes.get("/runs/{run_id}/brief", responses=answers_bytes("text/markdown", "The brief."))
def get_brief(run_id: str, request: Request, exchange: ExchangeService, profile: str | None = None) -> Response:
    """The brief that the run's newest session was given; with `profile`, as it would read for that service now."""
    brief = exchange.sessions.brief(run_id, profile)
    return stored_bytes(request, brief.text, brief.sha256, "text/markdown; charset=utf-8")
