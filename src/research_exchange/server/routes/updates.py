"""Updates: post one, and read it back byte for byte."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import JSONResponse

from research_exchange.documents.json import JsonValue
from research_exchange.server.dependencies import ExchangeService, update_body
from research_exchange.server.errors import error_response
from research_exchange.server.exchange import PostedUpdate
from research_exchange.server.guards import runner_only
from research_exchange.server.routes.answers import file_json, stored_bytes

routes = APIRouter()

UpdateNumber = Annotated[int, Path(ge=1, le=2**31)]


@routes.post("/runs/{run_id}/updates", dependencies=[Depends(runner_only)])
def post_update(run_id: str, raw: Annotated[bytes, Depends(update_body)], exchange: ExchangeService) -> Response:
    posted = exchange.post_update(run_id, raw)
    number = posted.stored.sequence
    if posted.stored.malformed is not None:
        return error_response(
            422,
            f"Stored as update {number}, but it says nothing to the Exchange: {posted.stored.malformed}",
            also={"sequence": number, "sha256": posted.stored.sha256},
        )
    return JSONResponse(_posted_json(posted), status_code=201 if posted.is_new else 200)


@routes.get("/runs/{run_id}/updates/{sequence}")
def get_update(run_id: str, sequence: UpdateNumber, request: Request, exchange: ExchangeService) -> Response:
    """The bytes as they were posted."""
    update = exchange.update(run_id, sequence)
    media_type = "application/json" if update.malformed is None else "application/octet-stream"
    return stored_bytes(request, update.raw, update.sha256, media_type)


def _posted_json(posted: PostedUpdate) -> dict[str, JsonValue]:
    return {
        "sequence": posted.stored.sequence,
        "sha256": posted.stored.sha256,
        "flags": [str(flag) for flag in posted.flags],
        "evidence": [file_json(answer) for answer in posted.files],
    }
