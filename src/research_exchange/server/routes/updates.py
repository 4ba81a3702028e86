"""Updates: post one, and read it back byte for byte."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from research_exchange.documents.json import JsonValue
from research_exchange.server.dependencies import ExchangeService, Offset, Page, update_body
from research_exchange.server.errors import error_response
from research_exchange.server.guards import runner_only
from research_exchange.server.routes.answers import file_json, listing, stored_bytes
from research_exchange.server.routes.described import UPDATE, answers, answers_bytes
from research_exchange.server.updating import PostedUpdate
from research_exchange.server.views import updates_json

routes = APIRouter(tags=["updates"])

UpdateNumber = Annotated[int, Path(ge=1, le=2**31)]


@routes.post(
    "/runs/{run_id}/updates",
    status_code=201,
    dependencies=[Depends(runner_only)],
    responses=answers({"sequence": 1, "sha256": "…", "flags": [], "evidence": []}, 201, "Stored; 200 for a retry."),
)
def post_update(
    run_id: str,
    raw: Annotated[bytes, Depends(update_body)],
    exchange: ExchangeService,
    session: Annotated[str | None, Query(max_length=100)] = None,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> Response:
    """Post an update (R-060). It is stored whatever it says; sending it again stores nothing.

    The same bytes with the same `Idempotency-Key` are a retry at any time; without one, only bytes equal to the run's
    last update are. `session` says whose update it is, by default that of the newest session that has not ended.
    """
    posted = exchange.updates.post(run_id, raw, idempotency_key, session)
    number = posted.stored.sequence
    if posted.stored.malformed is not None:
        return error_response(
            422,
            f"Stored as update {number}, but it says nothing to the Exchange: {posted.stored.malformed}",
            also={"sequence": number, "sha256": posted.stored.sha256},
        )
    return JSONResponse(_posted_json(posted), status_code=201 if posted.is_new else 200)


@routes.get("/runs/{run_id}/updates", responses=answers({"updates": [UPDATE], "total": 1, "next": None}))
def get_updates(run_id: str, exchange: ExchangeService, limit: Page = 50, offset: Offset = 0) -> Response:
    """The updates of a run in order of receipt, without their bytes; `malformed` says why one is none (R-06A).

    What was listed stays in its place: with the number of updates that one knows as `offset`, the page has those that
    came since.
    """
    found = exchange.updates_of(run_id, limit, offset)
    return JSONResponse(listing("updates", updates_json(found.heads, found.malformed), found.total, offset))


@routes.get("/runs/{run_id}/updates/{sequence}", responses=answers_bytes("application/json", "The update's own bytes."))
def get_update(run_id: str, sequence: UpdateNumber, request: Request, exchange: ExchangeService) -> Response:
    """The bytes as they were posted."""
    update = exchange.updates.get(run_id, sequence)
    media_type = "application/json" if update.malformed is None else "application/octet-stream"
    return stored_bytes(request, update.raw, update.sha256, media_type)


def _posted_json(posted: PostedUpdate) -> dict[str, JsonValue]:
    return {
        "sequence": posted.stored.sequence,
        "sha256": posted.stored.sha256,
        "flags": [str(flag) for flag in posted.flags],
        "evidence": [file_json(answer) for answer in posted.files],
    }
