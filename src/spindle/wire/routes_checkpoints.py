"""What can be done with one checkpoint: delete, keep for a time, publish, copy, describe."""

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from spindle.backends.contract import UserError
from spindle.control.errors import NotFoundError
from spindle.control.paths import CheckpointPath
from spindle.wire.bodies import check_own, owner_of, read, service_of
from spindle.wire.clients import reads_hyperparameters
from spindle.wire.requests import WeightsInfo
from spindle.wire.requests.checkpoints import CopyWeights, Ttl
from spindle.wire.results import weights_info

router = APIRouter()
Json = dict[str, Any]

_COPIES = uuid.UUID("6f7c2a53-6f9e-4c1b-9f3a-0d8a8e7c5b11")
"""Name space of the runs that copies are put in, so that one idempotency key always names the same run."""

CHECKPOINT = "/training_runs/{run_id}/checkpoints/{kind}/{name}"


def addressed(run_id: str, kind: str, name: str) -> CheckpointPath:
    """The checkpoint that a route names. One that cannot exist is not there, like any other."""
    try:
        return CheckpointPath.parse(f"tinker://{run_id}/{kind}/{name}")
    except UserError as error:
        raise NotFoundError(str(error)) from error


Addressed = Annotated[CheckpointPath, Depends(addressed)]


def _own(request: Request, path: Addressed) -> CheckpointPath:
    return service_of(request).library.own(owner_of(request), path)


Own = Annotated[CheckpointPath, Depends(_own)]


async def _ttl(request: Request) -> Ttl:
    return await read(request, Ttl)


async def _copy(request: Request) -> CopyWeights:
    return await read(request, CopyWeights)


@router.delete(CHECKPOINT, status_code=204)
def delete_checkpoint(request: Request, path: Own) -> Response:
    service_of(request).catalogue.delete(path)
    return Response(status_code=204)


@router.put(f"{CHECKPOINT}/ttl", status_code=204)
def set_ttl(request: Request, path: Own, body: Annotated[Ttl, Depends(_ttl)]) -> Response:
    service_of(request).catalogue.expire_in(path, body.ttl_seconds)
    return Response(status_code=204)


@router.post(f"{CHECKPOINT}/publish", status_code=204)
def publish(request: Request, path: Own) -> Response:
    """Publishing again is fine: clients would retry a 409 for minutes."""
    service_of(request).catalogue.set_public(path, True)
    return Response(status_code=204)


@router.delete(f"{CHECKPOINT}/publish", status_code=204)
def unpublish(request: Request, path: Own) -> Response:
    service_of(request).catalogue.set_public(path, False)
    return Response(status_code=204)


@router.post("/weights_info")
async def read_weights_info(request: Request) -> Json:
    body = await read(request, WeightsInfo)
    path = CheckpointPath.parse(body.tinker_path)
    found = service_of(request).library.find(owner_of(request), path)
    return weights_info(found, whole=reads_hyperparameters(request))


@router.post("/copy_weights")
def copy_weights(request: Request, body: Annotated[CopyWeights, Depends(_copy)]) -> Json:
    """Into a slot of a session, or into a new run; retries carry the same key and get the same copy."""
    service, owner = service_of(request), owner_of(request)
    if body.session_id is not None and body.model_seq_id is not None:
        check_own(request, body.session_id)
        session = service.sessions.touch(body.session_id)
        run_id, project_id = f"{body.session_id}:train:{body.model_seq_id}", session.project_id
    elif body.destination_project_id is not None:
        key = request.headers.get("x-idempotency-key") or uuid.uuid4().hex
        run_id, project_id = f"{uuid.uuid5(_COPIES, f'{owner} {key}')}:train:0", body.destination_project_id
    else:
        raise UserError("copy_weights needs destination_project_id, or session_id and model_seq_id.")
    source = CheckpointPath.parse(body.source_path)
    return {"tinker_path": str(service.library.copy(owner, source, run_id, project_id, body.ttl_seconds))}
