"""Bytes that are handed in by themselves, for a document to point to with its `source_url` (R-166)."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from research_exchange.documents.json import JsonValue
from research_exchange.evidence import MAX_FILE_BYTES
from research_exchange.server.attachments import Attached
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.errors import error_response
from research_exchange.server.guards import PerhapsCaller, may_use, runner_only
from research_exchange.server.limits import capped
from research_exchange.server.routes.answers import stored_bytes
from research_exchange.server.routes.described import answers, answers_bytes

routes = APIRouter(tags=["attachments"])
open_routes = APIRouter(tags=["attachments"], dependencies=[Depends(may_use)])
"""Those that are not under `/api`."""

_ATTACHED: JsonValue = {"source_url": "/attachments/…/rows.jsonl", "sha256": "…", "size": 120}

Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]


@routes.post(
    "/runs/{run_id}/attachments",
    status_code=201,
    dependencies=[Depends(runner_only)],
    responses=answers(_ATTACHED, 201, "Kept for a day, and for ever once a document points to it."),
)
async def attach(run_id: str, name: str, request: Request, exchange: ExchangeService) -> Response:
    """Hand in the bytes of a file, and get the `source_url` to name in the update that speaks of it."""
    with exchange.evidence.blobs.receive(MAX_FILE_BYTES) as incoming:
        async for chunk in capped(request.stream(), MAX_FILE_BYTES):
            incoming.write(chunk)
        attached = await run_in_threadpool(exchange.attachments.attach, run_id, name, incoming)
    if not isinstance(attached, Attached):
        return error_response(422, "The file was refused and is not stored.", list(map(str, attached.problems)))
    return JSONResponse(vars(attached), status_code=201)


@open_routes.get(
    "/attachments/{sha256}/{name}",
    responses=answers_bytes("application/octet-stream", "The bytes that were handed in."),
)
def get_attachment(
    sha256: Digest, name: str, request: Request, exchange: ExchangeService, who: PerhapsCaller
) -> Response:
    """What was handed in, as a download; to a runner, what was handed in for its own run."""
    content = exchange.attachments.read(sha256, who.run_id if who is not None else None)
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return stored_bytes(request, content, sha256, "application/octet-stream", disposition)
