"""Whether the Exchange works, and its figures."""

from importlib.metadata import version
from typing import Annotated, cast

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DatabaseError

from research_exchange.documents.json import JsonValue
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.exchange import Exchange
from research_exchange.server.guards import may_use
from research_exchange.server.metrics import CONTENT_TYPE, Metrics
from research_exchange.server.routes.described import answers, answers_bytes
from research_exchange.whereabouts import proof

routes = APIRouter(tags=["system"])

_WELL: JsonValue = {"status": "ok", "version": "0.1.0", "checks": {"database": "ok", "evidence": "ok"}}
_NOBODYS_BYTES = "0" * 64

Challenge = Annotated[str, Query(pattern="^[0-9a-f]{32}$")]


@routes.get("/health", responses=answers(_WELL))
async def get_health(exchange: ExchangeService) -> Response:
    """Whether the database and the evidence store answer; 503 where one does not."""
    # A thread of its own: those of the other requests may all be waiting for the write lock.
    checks = await to_thread.run_sync(_checks, exchange, limiter=CapacityLimiter(1))
    is_well = all(check == "ok" for check in checks.values())
    status = "ok" if is_well else "failing"
    return JSONResponse(
        {"status": status, "version": version("research-exchange"), "checks": checks}, 200 if is_well else 503
    )


@routes.get("/identity", responses=answers({"proof": "…"}))
async def get_identity(request: Request, challenge: Challenge) -> Response:
    """Shows whoever can read the data folder's `server.json` that this is the Exchange that wrote it.

    The proof is the HMAC-SHA-256 of the challenge under the secret in that file. A client asks for it before it sends a
    token from the folder to an address from the folder: somebody else may listen there by now.
    """
    return JSONResponse({"proof": proof(request.app.state.identity, challenge)})


@routes.get(
    "/metrics", dependencies=[Depends(may_use)], responses=answers_bytes("text/plain", "One figure on each line.")
)
def get_metrics(request: Request) -> Response:
    """The figures in the text format of Prometheus."""
    return Response(cast("Metrics", request.app.state.metrics).text(), media_type=CONTENT_TYPE)


def _checks(exchange: Exchange) -> dict[str, JsonValue]:
    return {"database": _database(exchange), "evidence": _evidence(exchange)}


def _database(exchange: Exchange) -> str:
    try:
        with exchange.store.reading() as reader:
            reader.count_runs()
    except DatabaseError:
        return "does not answer"
    return "ok"


def _evidence(exchange: Exchange) -> str:
    try:
        exchange.store.blobs.state(_NOBODYS_BYTES)
    except OSError:
        return "does not answer"
    return "ok"
