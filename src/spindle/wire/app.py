"""The ASGI application: authentication, error bodies, the routes, and what runs beside them."""

import asyncio
import hmac
import logging
import math
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from spindle.backends.contract import UserError
from spindle.config import DEFAULT_GRACE
from spindle.control import Service
from spindle.control.errors import BusyError, ForbiddenError, FullError, GoneError, NotFoundError
from spindle.wire import (
    routes_account,
    routes_checkpoints,
    routes_external,
    routes_futures,
    routes_gradients,
    routes_history,
    routes_listing,
    routes_sampling,
    routes_session,
    routes_training,
)
from spindle.wire.bodies import Rejected

ROUTES = (
    routes_session,
    routes_history,
    routes_account,
    routes_training,
    routes_gradients,
    routes_checkpoints,
    routes_listing,
    routes_external,
    routes_sampling,
    routes_futures,
)

logger = logging.getLogger(__name__)

TIDY = 2.0
"""Seconds between two looks at silent sessions, gaps and old results."""
EXPIRE = 60.0
"""Seconds between two looks at all checkpoints; a checkpoint past its time is hidden at once."""


def create_app(service: Service, keys: Mapping[str, str], grace: float = DEFAULT_GRACE) -> FastAPI:
    """The application over a service. Every route but healthz and identity asks for one of the keys, by owner."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        chores = [
            asyncio.create_task(_every(TIDY, service.tidy)),
            asyncio.create_task(_every(EXPIRE, service.delete_expired)),
        ]
        yield
        for chore in chores:
            chore.cancel()
        await stop()

    async def stop() -> None:
        """Let the running command end and fail the rest; polls then end too. Again is fine."""
        if not app.state.stopped.is_set():
            await asyncio.to_thread(service.stop, grace)
            app.state.stopped.set()

    app = FastAPI(title="Spindle", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    app.state.stopped = asyncio.Event()
    app.state.stop = stop
    app.state.identity = secrets.token_hex(32)
    app.get("/api/v1/healthz")(_healthz)
    app.get("/api/v1/identity")(_identity)
    for module in ROUTES:
        app.include_router(module.router, prefix="/api/v1", dependencies=[Depends(_KeyCheck(keys))])
    app.include_router(routes_external.downloads, prefix="/api/v1")
    app.add_exception_handler(UserError, _answer(400))
    app.add_exception_handler(ForbiddenError, _answer(403))
    app.add_exception_handler(NotFoundError, _answer(404))
    app.add_exception_handler(GoneError, _answer(410))
    app.add_exception_handler(BusyError, _busy)
    app.add_exception_handler(Rejected, _rejected)
    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(ClientDisconnect, _answer(400))  # nobody reads it, and it is no failure of ours
    app.add_exception_handler(Exception, _failed)
    return app


async def _healthz() -> dict[str, str]:
    return {"status": "ok"}


async def _identity(request: Request, challenge: Annotated[str, Query(pattern="^[0-9a-f]{32}$")]) -> dict[str, str]:
    """Shows whoever can read the announcement in the data folder that this is the server that wrote it.

    The proof is the HMAC-SHA-256 of the challenge under the announced secret. A client asks for it before it sends a
    key from the folder to an address from the folder: somebody else may listen there by now.
    """
    return {"proof": hmac.new(request.app.state.identity.encode(), challenge.encode(), "sha256").hexdigest()}


class _KeyCheck:
    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = {owner: key.encode() for owner, key in keys.items()}

    async def __call__(self, request: Request) -> None:
        given = request.headers.get("x-api-key", "").encode()
        owners = [owner for owner, key in self._keys.items() if hmac.compare_digest(given, key)]
        if not owners:
            raise HTTPException(401, "The API key is not one of this server's: set TINKER_API_KEY as it printed.")
        request.state.owner = owners[0]


async def _every(seconds: float, chore: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            chore()
        except Exception:
            logger.exception("A regular chore failed; it is tried again")


def _answer(status: int) -> Callable[[Request, Exception], JSONResponse]:
    return lambda _, error: JSONResponse({"detail": str(error)}, status)


def _failed(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": f"Spindle failed at this request ({type(error).__name__}); see its log."}, 500)


def _busy(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BusyError)
    status = 503 if isinstance(error, FullError) else 429
    return JSONResponse(
        {"detail": str(error), "limit": error.limit}, status, {"Retry-After": str(math.ceil(error.retry_after))}
    )


def _unfit(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"])
    return JSONResponse({"detail": f"{where}: {problem['msg']}."}, 400)


def _rejected(_: Request, error: Exception) -> JSONResponse:
    status = error.status if isinstance(error, Rejected) else 400
    return JSONResponse({"detail": str(error)}, status)
