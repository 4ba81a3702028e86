"""The API as an ASGI application over one data folder."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI

from research_exchange.server.access import admin_token
from research_exchange.server.bell import BellRinger
from research_exchange.server.door import Door
from research_exchange.server.doorkeeper import Doorkeeper
from research_exchange.server.errors import add_error_handlers
from research_exchange.server.exchange import Exchange
from research_exchange.server.headers import ProtectiveHeaders
from research_exchange.server.housekeeping import Housekeeping, patience
from research_exchange.server.lookout import LOOK_EVERY, Lookout
from research_exchange.server.metrics import Measured, Metrics
from research_exchange.server.openapi import DescribedApi
from research_exchange.server.outside import Outside
from research_exchange.server.rounds import rounds
from research_exchange.server.routes import add_routes
from research_exchange.server.sign_in import SignIns
from research_exchange.store import Clock, Identifiers, RandomIdentifiers, Store, utc_now


def create_api(
    data: Path,
    *,
    database_url: str | None = None,
    evidence_url: str | None = None,
    clock: Clock = utc_now,
    ids: Identifiers | None = None,
    door: Door | None = None,
    outside: Outside | None = None,
    silent_after: float | None = None,
) -> FastAPI:
    """Open the data folder and build the API over it; its lifespan closes the folder again.

    Args:
        data: Where the database, the evidence and the administrator's token live.
        database_url: An SQLAlchemy URL, where the database shall not be in the folder.
        evidence_url: `s3://bucket/prefix?endpoint=…`, where evidence shall not be in the folder.
        clock: Gives receipt times.
        ids: Gives fresh names and tokens.
        door: Who may come in; by default what suits a server on loopback.
        outside: The other services; by default those that the environment names.
        silent_after: Seconds without a heartbeat after which a session that had one is taken for dead; by default
            what `RX_SILENT_AFTER` says, or two minutes.
    """
    store = Store.open(data, database_url, evidence_url)
    exchange = Exchange(store, clock, ids or RandomIdentifiers(), outside or Outside.from_environment())
    housekeeping = Housekeeping(store, clock, exchange.recording, exchange.queue, silent_after or patience())
    lookout = Lookout(store, clock, exchange.bell)
    exchange.recording.settle_all()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        exchange.notifications.start()
        async with (
            rounds("housekeeping", housekeeping.tend, housekeeping.pause),
            rounds("looking out", lookout.look, LOOK_EVERY),
        ):
            yield
        exchange.notifications.stop()
        exchange.judging.close()
        store.close()

    app = DescribedApi(
        title="Research Exchange",
        version=version("research-exchange"),
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        # The bundled API browsers load their scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    app.state.exchange = exchange
    app.state.admin_token = admin_token(data)
    app.state.identity = secrets.token_hex(32)
    app.state.door = door or Door()
    app.state.sign_ins = SignIns(clock)
    app.state.metrics = Metrics(exchange)
    app.add_middleware(BellRinger, bell=exchange.bell)
    app.add_middleware(Doorkeeper, door=app.state.door)
    app.add_middleware(ProtectiveHeaders)
    app.add_middleware(Measured, metrics=app.state.metrics)
    add_error_handlers(app)
    app.routers = add_routes(app.router)
    return app
