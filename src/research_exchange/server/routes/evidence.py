"""Evidence: offer a file in one of three ways, and download it."""

from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from research_exchange.documents.json import DocumentError, JsonValue, parse
from research_exchange.evidence import MAX_FILE_BYTES, AdmissionStatus
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.errors import ApiError, error_response
from research_exchange.server.guards import runner_only
from research_exchange.server.intake import FileAnswer
from research_exchange.server.limits import MAX_UPDATE_BYTES, capped, read_body
from research_exchange.server.multipart import receive_form
from research_exchange.server.routes.answers import file_json, file_problems, stored_bytes
from research_exchange.server.routes.described import answers, answers_bytes

routes = APIRouter(tags=["evidence"])

_RETAINED: JsonValue = {"name": "run.py", "status": "accepted", "kind": "script", "sha256": "…", "problems": []}


@routes.post(
    "/runs/{run_id}/evidence",
    status_code=201,
    dependencies=[Depends(runner_only)],
    responses=answers(_RETAINED, 201, "Retained; 200 where the run held these very bytes under this name."),
)
async def post_evidence(
    run_id: str,
    request: Request,
    exchange: ExchangeService,
    name: str | None = None,
    kind: str | None = None,
    sha256: str | None = None,
) -> Response:
    """Retain a file: its bytes as the body with `name` and `kind` in the query, a form (`multipart/form-data` with the
    fields `name`, `kind`, `file`), or JSON (`{"name", "kind", "content" | "source_url", "sha256"}`)."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if name is None and kind is None and content_type == "application/json":
        return _answered(await _from_json(run_id, request, exchange))
    with exchange.evidence.blobs.receive(MAX_FILE_BYTES) as incoming:
        if content_type == "multipart/form-data":
            fields = await receive_form(request, incoming)
            name, kind, sha256 = fields.get("name", name), fields.get("kind", kind), fields.get("sha256", sha256)
        if name is None or kind is None:
            raise ApiError(422, "A file needs a name and a kind: give both in the query or as fields of the form.")
        if content_type != "multipart/form-data":
            async for chunk in capped(request.stream(), MAX_FILE_BYTES):
                incoming.write(chunk)
        answer = await run_in_threadpool(exchange.evidence.retain, run_id, name, kind, incoming, sha256)
    return _answered(answer)


@routes.get(
    "/runs/{run_id}/evidence/{name}", responses=answers_bytes("application/octet-stream", "The file's own bytes.")
)
def get_evidence(run_id: str, name: str, request: Request, exchange: ExchangeService) -> Response:
    """A retained file, as a download; it never opens inside the browser (R-222)."""
    file = exchange.evidence.read(run_id, name)
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return stored_bytes(request, file.content, file.record.sha256, "application/octet-stream", disposition)


async def _from_json(run_id: str, request: Request, exchange: ExchangeService) -> FileAnswer:
    try:
        entry = parse(await read_body(request, MAX_UPDATE_BYTES))
    except DocumentError as error:
        raise ApiError(422, f"The file cannot be read: {error}") from None
    return await run_in_threadpool(exchange.evidence.retain_entry, run_id, entry)


def _answered(answer: FileAnswer) -> Response:
    if answer.is_refused:
        return error_response(422, "The file was refused and is not stored.", file_problems(answer))
    is_new = answer.admission.status is AdmissionStatus.ACCEPTED
    return JSONResponse(file_json(answer), status_code=201 if is_new else 200)
