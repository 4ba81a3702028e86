"""Listing training runs and checkpoints, newest first."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from spindle.wire.bodies import owner_of, service_of
from spindle.wire.listing import Page, checkpoint_row, known_to_client, run_row

router = APIRouter()
Scope = Literal["owned", "accessible"]


@router.get("/training_runs")
def list_training_runs(
    request: Request,
    limit: int = 20,
    offset: int = 0,
    access_scope: Scope = "owned",
    project_id: str | None = None,
) -> JSONResponse:
    library, owner, page = service_of(request).library, owner_of(request), Page.of(limit, offset)
    runs = library.runs(owner, others=access_scope == "accessible", project_id=project_id)
    rows = [run_row(library, owner, run) for run in page.take(runs)]
    return JSONResponse({"training_runs": rows, "cursor": page.cursor(len(runs))})


@router.get("/training_runs/{run_id}")
def get_training_run(request: Request, run_id: str) -> dict[str, Any]:
    library, owner = service_of(request).library, owner_of(request)
    return run_row(library, owner, library.run(owner, run_id))


@router.get("/training_runs/{run_id}/checkpoints")
def list_checkpoints(request: Request, run_id: str) -> JSONResponse:
    """All of one run: clients do not ask for pages here."""
    library, owner = service_of(request).library, owner_of(request)
    library.run(owner, run_id)
    found = known_to_client(request, library.checkpoints(owner, run_id))
    return JSONResponse({"checkpoints": [checkpoint_row(checkpoint) for checkpoint in found]})


@router.get("/checkpoints")
def list_user_checkpoints(request: Request, limit: int = 100, offset: int = 0) -> JSONResponse:
    page = Page.of(limit, offset)
    found = known_to_client(request, service_of(request).library.checkpoints(owner_of(request)))
    rows = [checkpoint_row(checkpoint) for checkpoint in page.take(found)]
    return JSONResponse({"checkpoints": rows, "cursor": page.cursor(len(found))})
