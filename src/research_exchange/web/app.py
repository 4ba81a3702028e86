"""The Exchange as one application: its API with its pages."""

from pathlib import Path

from fastapi import FastAPI

from research_exchange.server import BadSetting, CannotServe, Door, create_api, opening, serve_app
from research_exchange.server.outside import Outside
from research_exchange.store import Clock, Identifiers, utc_now
from research_exchange.web import idea_pages, work_pages
from research_exchange.web.pages import assets, pages
from research_exchange.web.run import RunPages
from research_exchange.whereabouts import DEFAULT_HOST, DEFAULT_PORT


def create_app(
    data: Path,
    *,
    database_url: str | None = None,
    evidence_url: str | None = None,
    clock: Clock = utc_now,
    ids: Identifiers | None = None,
    door: Door | None = None,
    outside: Outside | None = None,
) -> FastAPI:
    """The API and the pages over one data folder; the arguments are those of `server.create_api`."""
    app = create_api(
        data,
        database_url=database_url,
        evidence_url=evidence_url,
        clock=clock,
        ids=ids,
        door=door,
        outside=outside,
    )
    app.state.run_pages = RunPages(app.state.exchange)
    for router in (assets, work_pages.open_pages, pages, idea_pages.pages, work_pages.pages):
        app.include_router(router)
    return app


def serve(
    data: Path,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    *,
    or_any: bool = False,
    require_login: bool = False,
    database_url: str | None = None,
    evidence_url: str | None = None,
) -> None:
    """Serve a data folder until SIGINT or SIGTERM; see `server.opening`, `server.Door` and `server.serve_app`.

    Raises:
        CannotServe: The folder, the address or a setting cannot be used.
    """
    try:
        door = Door.for_host(host, require_login=require_login)
    except BadSetting as error:
        raise CannotServe(str(error)) from None
    with opening(data):
        app = create_app(data, database_url=database_url, evidence_url=evidence_url, door=door)
    serve_app(app, data, host, port, or_any=or_any)
