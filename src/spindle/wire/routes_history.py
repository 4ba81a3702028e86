"""Looking for sessions, and what can be said about them."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from spindle.control.history import History, Seen
from spindle.wire.bodies import owner_of, read, service_of
from spindle.wire.listing import Page
from spindle.wire.requests import AssignProject, SearchSessions, Typed

router = APIRouter()
Json = dict[str, Any]

NO_PROJECT = "default"
"""The project of sessions that named none."""


@router.get("/sessions")
async def list_sessions(
    request: Request, limit: Annotated[int, Query()] = 20, offset: Annotated[int, Query()] = 0
) -> Json:
    found = service_of(request).history.list(owner_of(request))
    return {"sessions": [session.session_id for session in Page.of(limit, offset).take(found)]}


@router.get("/sessions/{session_id}")
async def get_session(request: Request, session_id: str) -> Json:
    service = service_of(request)
    session = service.history.get(owner_of(request), session_id)
    return {
        "training_run_ids": session.runs,
        "sampler_ids": service.samplers.of_session(session_id),
        "user_metadata": dict(session.about.user_metadata),
        "display_name": session.about.display_name,
    }


@router.put("/sessions/{session_id}/project", status_code=204)
async def assign_project(request: Request, session_id: str) -> Response:
    body = await read(request, AssignProject)
    assign = service_of(request).history.assign_project
    await run_in_threadpool(assign, owner_of(request), session_id, body.project_id)  # it waits for the disk
    return Response(status_code=204)


@router.get("/sessions/{session_id}/trace_export")
async def export_trace(request: Request, session_id: str) -> Json:
    service_of(request).history.get(owner_of(request), session_id)
    return {"status": "failed", "error": "This server keeps no traces of sessions."}


@router.post("/sessions/search")
async def search_sessions(request: Request) -> Json:
    """Newest first; the last row of a full page is where the next one starts."""
    body, owner = await read(request, SearchSessions), owner_of(request)
    history = service_of(request).history
    found = [session for session in history.list(owner) if _is_wanted(session, body, owner)]
    if body.cursor is not None:
        seen = (body.cursor.last_created_at, body.cursor.last_session_id)
        found = [session for session in found if _place(session) < seen]
    page = found[: body.limit]
    reply: Json = {"sessions": [_row(history, session) for session in page]}
    if len(found) > len(page):
        created_at, session_id = _place(page[-1])
        reply["next_cursor"] = {"last_created_at": created_at.isoformat(), "last_session_id": session_id}
    return reply


def _place(session: Seen) -> tuple[datetime, str]:
    return session.created_at, session.session_id


def _is_wanted(session: Seen, body: SearchSessions, owner: str) -> bool:
    """Every kind of condition must hold, but that one of id and name is enough."""
    named = [
        body.session_id is not None and body.session_id == session.session_id,
        body.display_name is not None and _is_named(session, body.display_name),
    ]
    metadata = session.about.user_metadata
    return (
        (any(named) or (body.session_id is None and body.display_name is None))
        and (body.project_ids is None or (session.project_id or NO_PROJECT) in body.project_ids)
        and all(metadata.get(key) == value for key, value in body.user_metadata.items())
        and (body.owner.type != "user" or owner in body.owner.owner_urns)
        and (body.statuses is None or any(_has_status(session, wanted) for wanted in body.statuses))
    )


def _is_named(session: Seen, words: str) -> bool:
    name = (session.about.display_name or "").casefold()
    return all(word in name for word in words.casefold().split())


def _has_status(session: Seen, wanted: Typed) -> bool:
    found = _status(session)
    if found is None or found["type"] != wanted.type:
        return False
    return wanted.type != "client_finished" or wanted.reasons is None or found["reason"]["type"] in wanted.reasons


def _status(session: Seen) -> Json | None:
    """None for a session that ended without a word from its client."""
    if session.live:
        return {"type": "active"}
    if session.finish is None or session.finish.reason not in ("success", "errored", "interrupted"):
        return None
    return {
        "type": "client_finished",
        "reason": {"type": session.finish.reason},
        "detail": session.finish.detail,
    }


def _row(history: History, session: Seen) -> Json:
    count, size = history.size(session)
    return {
        "session_id": session.session_id,
        "created_at": session.created_at.isoformat(),
        "owner": session.owner,
        "project_id": session.project_id or NO_PROJECT,
        "status": _status(session),
        "checkpoints_count": count,
        "checkpoint_storage_bytes": size,
        "display_name": session.about.display_name,
        "user_metadata": dict(session.about.user_metadata),
    }
