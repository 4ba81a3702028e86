"""The life of a session, and what the server can do."""

from typing import Any

from fastapi import APIRouter, Request, Response

from spindle.control.sessions import Finish
from spindle.wire.bodies import check_own, owner_of, read, service_of
from spindle.wire.clients import SUPPORTED, client_version
from spindle.wire.requests import CreateSession, FinishSession, SessionAddress
from spindle.wire.results import CLIENT_CONFIG, DYNAMIC_CONFIG

router = APIRouter()


@router.post("/client/config")
async def client_config() -> dict[str, Any]:
    return CLIENT_CONFIG


@router.post("/client/dynamic_config")
async def dynamic_config() -> dict[str, Any]:
    return DYNAMIC_CONFIG


@router.post("/create_session")
async def create_session(request: Request) -> dict[str, Any]:
    body = await read(request, CreateSession)
    key = request.headers.get("x-idempotency-key")
    session = service_of(request).sessions.create(owner_of(request), body.to_contract(), key)
    reply = {"type": "create_session", "session_id": session.session_id}
    version = client_version(request)
    if version is not None and version < SUPPORTED:
        wanted, found = (".".join(map(str, parts)) for parts in (SUPPORTED, version))
        reply["warning_message"] = (
            f"Spindle serves tinker {found} as well as it can; everything works from {wanted} on: "
            f"pip install 'tinker>={wanted}'."
        )
    return reply


@router.post("/session_heartbeat")
async def session_heartbeat(request: Request) -> dict[str, Any]:
    body = await read(request, SessionAddress)
    service_of(request).sessions.touch(body.session_id)
    return {"type": "session_heartbeat"}


@router.post("/sessions/{session_id}/finish", status_code=204)
async def finish_session(request: Request, session_id: str) -> Response:
    check_own(request, session_id)
    body = await read(request, FinishSession)
    service_of(request).end_session(session_id, Finish(body.reason.type, body.detail))
    return Response(status_code=204)


@router.get("/get_server_capabilities")
async def get_server_capabilities(request: Request) -> dict[str, Any]:
    return {
        "supported_models": [
            {
                "model_name": model.name,
                "max_context_length": model.context_length,
                "trainable": True,
                "sampleable": True,
            }
            for model in service_of(request).base_models
        ]
    }


@router.post("/telemetry")
async def telemetry() -> dict[str, Any]:
    """Accepted and dropped unread: clients put request headers with their key into it."""
    return {"status": "accepted"}
