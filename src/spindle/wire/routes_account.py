"""The key and its owner. What an organisation's service would log and bill is empty here."""

from typing import Any

from fastapi import APIRouter, Request

from spindle.control.errors import ForbiddenError, NotFoundError
from spindle.wire.bodies import owner_of, service_of

router = APIRouter()
Json = dict[str, Any]

GIGABYTE = 1e9


@router.post("/auth/token")
async def exchange_key() -> None:
    raise NotFoundError("This server takes its API keys as they are; there are no tokens to exchange them for.")


@router.get("/auth/apikey/me")
async def get_own_key(request: Request) -> Json:
    owner = owner_of(request)
    details = {"org_details": {"name": "Spindle"}, "user_details": {"email": f"{owner}@spindle.invalid"}}
    return {"key_id": 0, "name": owner, "note": "A key of this Spindle server.", "details": details}


@router.delete("/auth/apikey/me")
async def delete_own_key() -> None:
    raise ForbiddenError("The keys of this server are in its configuration: whoever runs it can remove yours there.")


@router.get("/audit")
async def get_audit_log() -> Json:
    return {"entries": []}


@router.get("/billing/usage/events")
async def get_billing_usage() -> Json:
    """Nothing here costs anything."""
    return {"data": [], "sessions": {}}


@router.get("/billing/usage/checkpoints/current")
async def get_checkpoint_usage(request: Request, project_id: str | None = None) -> Json:
    """What an owner's checkpoints take, by project."""
    owner, service = owner_of(request), service_of(request)
    sizes: dict[str | None, list[int]] = {}
    for checkpoint in service.library.checkpoints(owner):
        run = service.catalogue.run(checkpoint.path.run)
        sizes.setdefault(None if run is None else run.project_id, []).append(checkpoint.size_bytes)
    return {
        "data": [
            {
                "project_id": project,
                "user_name": owner,
                "checkpoint_count": len(found),
                "size_bytes": sum(found),
                "size_gigabytes": sum(found) / GIGABYTE,
            }
            for project, found in sizes.items()
            if project_id in (None, project)
        ]
    }
