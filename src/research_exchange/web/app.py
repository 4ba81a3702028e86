"""The Exchange as one application: its API with its pages."""

from pathlib import Path

from fastapi import FastAPI

from research_exchange.server import DEFAULT_HOST, DEFAULT_PORT, create_api, opening, serve_app
from research_exchange.store import Clock, Identifiers, utc_now
from research_exchange.web.pages import pages


def create_app(
    data: Path, *, database_url: str | None = None, clock: Clock = utc_now, ids: Identifiers | None = None
) -> FastAPI:
    """The API and the pages over one data folder; the arguments are those of `server.create_api`."""
    app = create_api(data, database_url=database_url, clock=clock, ids=ids)
    app.include_router(pages)
    return app


def serve(data: Path, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> None:
    """Serve a data folder until SIGINT or SIGTERM; see `server.opening` and `server.serve_app`."""
    with opening(data):
        app = create_app(data)
    serve_app(app, data, host, port)
