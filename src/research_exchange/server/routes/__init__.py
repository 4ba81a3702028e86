"""The REST API: addresses, who may use them, what they answer; a module for each thing. The work is `Exchange`'s."""

from fastapi import APIRouter, Depends

from research_exchange.server.guards import may_use
from research_exchange.server.routes import (
    attachments,
    events,
    evidence,
    exports,
    hooks,
    ideas,
    judgments,
    queue,
    runs,
    sessions,
    sign_in,
    slack,
    specs,
    system,
    tokens,
    updates,
)

__all__ = ["add_routes"]

_UNDER_API = (
    specs,
    runs,
    updates,
    evidence,
    attachments,
    judgments,
    sessions,
    queue,
    events,
    exports,
    ideas,
    tokens,
    hooks,
)


def add_routes(app: APIRouter) -> list[APIRouter]:
    """Everything that the API answers; what is not for machines alone is not under `/api`.

    Returns:
        The routers under `/api`.
    """
    app.include_router(system.routes)
    app.include_router(attachments.open_routes)
    app.include_router(sign_in.routes)
    app.include_router(slack.routes, prefix="/api")
    for module in _UNDER_API:
        app.include_router(module.routes, prefix="/api", dependencies=[Depends(may_use)])
    return [module.routes for module in _UNDER_API]
