"""What a route asks FastAPI for: the services, and a body under its cap."""

from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from research_exchange.credentials import redact_text
from research_exchange.server.exchange import Exchange
from research_exchange.server.limits import MAX_PAGE, MAX_SPEC_BYTES, MAX_UPDATE_BYTES, read_body, read_control
from research_exchange.store import LaunchMode, RunnerKind

Page = Annotated[int, Query(ge=1, le=MAX_PAGE)]
Offset = Annotated[int, Query(ge=0, le=2**31)]


_Words = Annotated[str, Field(max_length=4000), AfterValidator(redact_text)]
"""What somebody says; it is shown to every reader, so a credential in it is not kept (R-243)."""


class NewRun(BaseModel):
    """The body of `POST /api/runs`."""

    model_config = ConfigDict(extra="forbid")
    spec_id: str
    launch_mode: LaunchMode = LaunchMode.ORDINARY
    redo_of: str | None = None
    """The earlier run that this one repeats; it makes the launch mode `redo`."""
    queue: bool = False


class Reason(BaseModel):
    """The body, which may be left out, of `POST /api/runs/{id}/cancel` and `POST /api/runs/{id}/requeue`."""

    model_config = ConfigDict(extra="forbid")
    reason: _Words = ""


class NewSession(BaseModel):
    """The body, which may be left out, of `POST /api/runs/{id}/sessions`."""

    model_config = ConfigDict(extra="forbid")
    runner: RunnerKind = RunnerKind.LOCAL
    profile: str | None = None
    """The service profile that the brief is written for (R-056)."""


class EndOfSession(BaseModel):
    """The body of `POST /api/runs/{id}/sessions/{session}/end`."""

    model_config = ConfigDict(extra="forbid")
    exit_code: int | None = Field(default=None, ge=-(2**31), lt=2**31)
    reason: _Words


async def exchange_of(request: Request) -> Exchange:
    """Asynchronous, because it needs no thread and must not wait for one."""
    exchange = request.app.state.exchange
    assert isinstance(exchange, Exchange)
    return exchange


ExchangeService = Annotated[Exchange, Depends(exchange_of)]


async def spec_body(request: Request) -> bytes:
    return await read_body(request, MAX_SPEC_BYTES)


async def update_body(request: Request) -> bytes:
    return await read_body(request, MAX_UPDATE_BYTES)


async def new_run(request: Request) -> NewRun:
    return await read_control(request, NewRun)


async def reason_of(request: Request) -> Reason:
    return await read_control(request, Reason, may_be_empty=True)


async def new_session(request: Request) -> NewSession:
    return await read_control(request, NewSession, may_be_empty=True)


async def end_of_session(request: Request) -> EndOfSession:
    return await read_control(request, EndOfSession)
