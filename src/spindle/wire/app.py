"""The ASGI application: authentication, error bodies, the routes, and what runs beside them."""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from spindle.backends.contract import UserError
from spindle.control import Service
from spindle.control.errors import ForbiddenError, GoneError, NotFoundError
from spindle.control.records import LOCAL
from spindle.wire import routes_futures, routes_sampling, routes_session, routes_training
from spindle.wire.bodies import Rejected

logger = logging.getLogger(__name__)

TIDY = 2.0
"""Seconds between two looks at silent sessions, gaps and old results."""
EXPIRE = 60.0
"""Seconds between two looks at all checkpoints; a checkpoint past its time is hidden at once."""
STOP = 5.0
"""Seconds a running computation may take to end at shutdown."""


def create_app(service: Service, key: str) -> FastAPI:
    """The application over a service; every route but healthz asks for the key."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        chores = [
            asyncio.create_task(_every(TIDY, service.tidy)),
            asyncio.create_task(_every(EXPIRE, service.delete_expired)),
        ]
        yield
        for chore in chores:
            chore.cancel()
        await asyncio.to_thread(service.stop, STOP)

    app = FastAPI(title="Spindle", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    app.state.stopping = asyncio.Event()
    app.get("/api/v1/healthz")(_healthz)
    for module in (routes_session, routes_training, routes_sampling, routes_futures):
        app.include_router(module.router, prefix="/api/v1", dependencies=[Depends(_KeyCheck(key))])
    app.add_exception_handler(UserError, _answer(400))
    app.add_exception_handler(ForbiddenError, _answer(403))
    app.add_exception_handler(NotFoundError, _answer(404))
    app.add_exception_handler(GoneError, _answer(410))
    app.add_exception_handler(Rejected, _rejected)
    app.add_exception_handler(ClientDisconnect, _answer(400))  # nobody reads it, and it is no failure of ours
    app.add_exception_handler(Exception, _failed)
    return app


async def _healthz() -> dict[str, str]:
    return {"status": "ok"}


class _KeyCheck:
    def __init__(self, key: str) -> None:
        self._key = key.encode()

    async def __call__(self, request: Request) -> None:
        given = request.headers.get("x-api-key", "")
        if not hmac.compare_digest(given.encode(), self._key):
            raise HTTPException(401, "The API key is not the one of this server: set TINKER_API_KEY as it printed.")
        request.state.owner = LOCAL


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


def _rejected(_: Request, error: Exception) -> JSONResponse:
    status = error.status if isinstance(error, Rejected) else 400
    return JSONResponse({"detail": str(error)}, status)
