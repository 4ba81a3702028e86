"""What a route asks FastAPI for: the services, the caller's rights, and a body under its cap."""

from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from research_exchange.evidence import MAX_FILE_BYTES
from research_exchange.server.access import Admin, Caller, Runner, same_secret
from research_exchange.server.errors import ApiError
from research_exchange.server.exchange import Exchange, unknown_run
from research_exchange.server.limits import MAX_PAGE, MAX_SPEC_BYTES, MAX_UPDATE_BYTES, read_body, read_control
from research_exchange.store import LaunchMode

Page = Annotated[int, Query(ge=1, le=MAX_PAGE)]
Offset = Annotated[int, Query(ge=0, le=2**31)]


class NewRun(BaseModel):
    """The body of `POST /api/runs`."""

    model_config = ConfigDict(extra="forbid")
    spec_id: str
    launch_mode: LaunchMode = LaunchMode.ORDINARY


class EndOfSession(BaseModel):
    """The body of `POST /api/runs/{id}/sessions/{session}/end`."""

    model_config = ConfigDict(extra="forbid")
    exit_code: int | None = Field(default=None, ge=-(2**31), lt=2**31)
    reason: str = Field(max_length=4000)


def exchange_of(request: Request) -> Exchange:
    exchange = request.app.state.exchange
    assert isinstance(exchange, Exchange)
    return exchange


ExchangeService = Annotated[Exchange, Depends(exchange_of)]


def caller(request: Request, exchange: ExchangeService) -> Caller:
    """Whose token the request carries.

    Raises:
        ApiError: 401 when it carries none, or one that nobody was given.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ApiError(401, "This needs a token: send the header `Authorization: Bearer <token>`.")
    if same_secret(token.strip(), request.app.state.admin_token):
        return Admin()
    with exchange.store.reading() as reader:
        run_id = reader.run_of_token(token.strip())
    if run_id is None:
        raise ApiError(401, "This token is not known here; it may belong to another Exchange.")
    return Runner(run_id)


def admin_only(who: Annotated[Caller, Depends(caller)]) -> None:
    if not isinstance(who, Admin):
        raise ApiError(403, "This takes the administrator's token; a runner's token is good for reporting to its run.")


def runner_only(run_id: str, who: Annotated[Caller, Depends(caller)], exchange: ExchangeService) -> None:
    """Lets the run's own runner pass."""
    _require_run(exchange, run_id)
    if who != Runner(run_id):
        raise ApiError(403, f"This takes the token of the runner of {run_id}, given out when that run was created.")


def runner_or_admin(run_id: str, who: Annotated[Caller, Depends(caller)], exchange: ExchangeService) -> None:
    _require_run(exchange, run_id)
    if who not in (Runner(run_id), Admin()):
        raise ApiError(403, f"This takes the administrator's token or that of the runner of {run_id}.")


def _require_run(exchange: Exchange, run_id: str) -> None:
    with exchange.store.reading() as reader:
        if reader.run(run_id) is None:
            raise unknown_run(run_id)


async def spec_body(request: Request) -> bytes:
    return await read_body(request, MAX_SPEC_BYTES)


async def update_body(request: Request) -> bytes:
    return await read_body(request, MAX_UPDATE_BYTES)


async def evidence_body(request: Request) -> bytes:
    return await read_body(request, MAX_FILE_BYTES)


async def new_run(request: Request) -> NewRun:
    return await read_control(request, NewRun)


async def end_of_session(request: Request) -> EndOfSession:
    return await read_control(request, EndOfSession)
