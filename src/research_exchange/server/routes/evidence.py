"""Evidence: offer a file, and download it."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from research_exchange.evidence import AdmissionStatus
from research_exchange.server.dependencies import ExchangeService, evidence_body
from research_exchange.server.errors import error_response
from research_exchange.server.guards import runner_only
from research_exchange.server.routes.answers import file_json, file_problems, stored_bytes

routes = APIRouter()


@routes.post("/runs/{run_id}/evidence", dependencies=[Depends(runner_only)])
def post_evidence(
    run_id: str,
    name: str,
    kind: str,
    content: Annotated[bytes, Depends(evidence_body)],
    exchange: ExchangeService,
    sha256: str | None = None,
) -> Response:
    answer = exchange.add_evidence(run_id, name, kind, content, sha256)
    if answer.is_refused:
        return error_response(422, "The file was refused and is not stored.", file_problems(answer))
    is_new = answer.admission.status is AdmissionStatus.ACCEPTED
    return JSONResponse(file_json(answer), status_code=201 if is_new else 200)


@routes.get("/runs/{run_id}/evidence/{name}")
def get_evidence(run_id: str, name: str, request: Request, exchange: ExchangeService) -> Response:
    """A retained file, as a download; it never opens inside the browser (R-222)."""
    file = exchange.read_evidence(run_id, name)
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return stored_bytes(request, file.content, file.record.sha256, "application/octet-stream", disposition)
