"""The REST API: addresses, who may use them, and what they answer. The work is `Exchange`'s."""

from importlib.metadata import version
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from research_exchange.documents.json import JsonValue
from research_exchange.evidence import AdmissionStatus
from research_exchange.server.dependencies import (
    EndOfSession,
    ExchangeService,
    NewRun,
    admin_only,
    end_of_session,
    evidence_body,
    new_run,
    runner_only,
    runner_or_admin,
    spec_body,
    update_body,
)
from research_exchange.server.errors import error_response
from research_exchange.server.exchange import PostedUpdate
from research_exchange.server.intake import FileAnswer
from research_exchange.server.limits import MAX_PAGE
from research_exchange.server.views import run_json, run_summary_json

health = APIRouter()
api = APIRouter(prefix="/api")

Page = Annotated[int, Query(ge=1, le=MAX_PAGE)]
UpdateNumber = Annotated[int, Path(ge=1, le=2**31)]
Offset = Annotated[int, Query(ge=0, le=2**31)]


@health.get("/health")
def get_health() -> dict[str, str]:
    return {"status": "ok", "version": version("research-exchange")}


@api.post("/specs", dependencies=[Depends(admin_only)])
def register_spec(raw: Annotated[bytes, Depends(spec_body)], exchange: ExchangeService) -> Response:
    registered = exchange.register_spec(raw)
    spec = registered.spec
    return JSONResponse(
        {"id": spec.id, "sha256": spec.sha256, "title": spec.title}, status_code=201 if registered.is_new else 200
    )


@api.get("/specs/{spec_id}")
def get_spec(spec_id: str, request: Request, exchange: ExchangeService) -> Response:
    """The bytes as they were registered."""
    spec = exchange.spec(spec_id)
    return stored_bytes(request, spec.raw, spec.sha256, "application/json")


@api.post("/runs", dependencies=[Depends(admin_only)])
def create_run(form: Annotated[NewRun, Depends(new_run)], exchange: ExchangeService) -> Response:
    created = exchange.create_run(form.spec_id, form.launch_mode)
    return JSONResponse({"id": created.id, "spec_id": created.spec_id, "token": created.token}, status_code=201)


@api.get("/runs")
def list_runs(exchange: ExchangeService, limit: Page = 50, offset: Offset = 0) -> Response:
    with exchange.store.reading() as reader:
        runs, total = reader.runs(limit, offset), reader.count_runs()
    return JSONResponse({"runs": [run_summary_json(run) for run in runs], "total": total})


@api.get("/runs/{run_id}")
def get_run(run_id: str, exchange: ExchangeService) -> Response:
    return JSONResponse(run_json(exchange.view(run_id)))


@api.post("/runs/{run_id}/updates", dependencies=[Depends(runner_only)])
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


@api.get("/runs/{run_id}/updates/{sequence}")
def get_update(run_id: str, sequence: UpdateNumber, request: Request, exchange: ExchangeService) -> Response:
    """The bytes as they were posted."""
    update = exchange.update(run_id, sequence)
    media_type = "application/json" if update.malformed is None else "application/octet-stream"
    return stored_bytes(request, update.raw, update.sha256, media_type)


@api.post("/runs/{run_id}/evidence", dependencies=[Depends(runner_only)])
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
        return error_response(422, "The file was refused and is not stored.", _problems(answer))
    is_new = answer.admission.status is AdmissionStatus.ACCEPTED
    return JSONResponse(_file_json(answer), status_code=201 if is_new else 200)


@api.get("/runs/{run_id}/evidence/{name}")
def get_evidence(run_id: str, name: str, request: Request, exchange: ExchangeService) -> Response:
    """A retained file, as a download; it never opens inside the browser (R-222)."""
    file = exchange.read_evidence(run_id, name)
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return stored_bytes(request, file.content, file.record.sha256, "application/octet-stream", disposition)


@api.get("/runs/{run_id}/judgment")
def get_judgment(run_id: str, exchange: ExchangeService) -> Response:
    return Response(exchange.view(run_id).judge().canonical_bytes(), media_type="application/json")


@api.post("/runs/{run_id}/judgment", dependencies=[Depends(runner_or_admin)])
def record_judgment(run_id: str, exchange: ExchangeService) -> Response:
    return Response(exchange.record_judgment(run_id).judgment, media_type="application/json")


@api.post("/runs/{run_id}/sessions", dependencies=[Depends(runner_only)])
def start_session(run_id: str, exchange: ExchangeService) -> Response:
    return JSONResponse({"session": exchange.start_session(run_id)}, status_code=201)


@api.post("/runs/{run_id}/sessions/{session_id}/end", dependencies=[Depends(runner_only)])
def end_session(
    run_id: str, session_id: str, form: Annotated[EndOfSession, Depends(end_of_session)], exchange: ExchangeService
) -> Response:
    exchange.end_session(run_id, session_id, form.exit_code, form.reason)
    return JSONResponse({"session": session_id})


def stored_bytes(
    request: Request, content: bytes, sha256: str, media_type: str, disposition: str | None = None
) -> Response:
    """Bytes that never change, under their SHA-256 as ETag."""
    headers = {"ETag": f'"{sha256}"', "Cache-Control": "no-cache"}
    if disposition:
        headers["Content-Disposition"] = disposition
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


def _posted_json(posted: PostedUpdate) -> dict[str, JsonValue]:
    return {
        "sequence": posted.stored.sequence,
        "sha256": posted.stored.sha256,
        "flags": [str(flag) for flag in posted.flags],
        "evidence": [_file_json(answer) for answer in posted.files],
    }


def _file_json(answer: FileAnswer) -> dict[str, JsonValue]:
    return {
        "name": answer.name,
        "status": answer.admission.status.value,
        "kind": answer.admission.kind,
        "sha256": answer.admission.sha256,
        "problems": _problems(answer),
    }


def _problems(answer: FileAnswer) -> list[JsonValue]:
    return [str(problem) for problem in answer.admission.problems]
