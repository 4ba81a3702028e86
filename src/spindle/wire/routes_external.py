"""Getting weights out: exports, links that need no key, and what lies behind them."""

from collections.abc import Iterator, Mapping
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from spindle.backends.contract import ADAPTER_FILES, UserError
from spindle.control import Promise, archive
from spindle.control.errors import NotFoundError
from spindle.control.links import Link
from spindle.control.paths import CheckpointPath, Kind
from spindle.wire.bodies import owner_of, parse, service_of
from spindle.wire.requests import Address
from spindle.wire.requests.checkpoints import SaveExternal
from spindle.wire.routes_checkpoints import CHECKPOINT, Addressed, addressed
from spindle.wire.routes_training import command, read_command

router = APIRouter()
downloads = APIRouter()
"""Routes that are opened by the signature of a link instead of a key."""

PREFIX = "/api/v1"
FILE = "/downloads/{run_id}/{kind}/{name}/files/{file:path}"
ARCHIVE = "/downloads/{run_id}/{kind}/{name}/archive.tar"


@router.post("/save_weights_external")
async def save_weights_external(request: Request) -> dict[str, Any]:
    body = await read_command(request)

    def submit(address: Address) -> Promise:
        wanted = parse(SaveExternal, body)
        return service_of(request).training.save_external(
            address.model_id, address.seq_id, wanted.path, wanted.options(), wanted.age_encryption_recipients
        )

    return command(request, body, submit)


@router.get(f"{CHECKPOINT}/external_weights_urls")
def get_external_weights_urls(request: Request, path: Addressed) -> dict[str, Any]:
    """One link per file, all good until the same moment."""
    if path.kind is not Kind.EXTERNAL:
        raise UserError(f"{path} has no download links: save it with save_weights_external.")
    checkpoint = service_of(request).library.find(owner_of(request), path)
    links = {name: _link(request, FILE, path, name) for name in checkpoint.files()}
    return {
        "urls": {name: _absolute(request, link) for name, link in links.items()},
        "expires": min(link.expires for link in links.values()).isoformat(),
    }


@router.get(f"{CHECKPOINT}/archive")
def get_archive(request: Request, path: Addressed) -> Response:
    """Where the whole checkpoint can be had as one file, for SDKs up to 0.35."""
    service_of(request).library.find(owner_of(request), path)
    link = _link(request, ARCHIVE, path)
    headers = {"Location": _absolute(request, link), "Expires": format_datetime(link.expires, usegmt=True)}
    return Response(status_code=302, headers=headers)


@downloads.api_route(FILE, methods=["GET", "HEAD"])
def download_file(
    request: Request, run_id: str, kind: str, name: str, file: str, expires: str = "", signature: str = ""
) -> Response:
    _check(request, expires, signature)
    found = _files(request, addressed(run_id, kind, name)).get(file)
    if found is None:
        raise NotFoundError(f"There is no file {file!r} in this checkpoint.")
    return FileResponse(found, media_type="application/octet-stream", filename=Path(file).name)


@downloads.get(ARCHIVE)
def download_archive(
    request: Request, run_id: str, kind: str, name: str, expires: str = "", signature: str = ""
) -> Response:
    _check(request, expires, signature)
    path = addressed(run_id, kind, name)
    files = _files(request, path)

    def content() -> Iterator[bytes]:
        with service_of(request).catalogue.reading(path):
            yield from archive.pieces(files)

    headers = {"Content-Length": str(archive.length(files))}
    return StreamingResponse(content(), media_type="application/x-tar", headers=headers)


def _files(request: Request, path: CheckpointPath) -> Mapping[str, Path]:
    """What a client may download of a checkpoint: of a training state, the adapter."""
    checkpoint = service_of(request).catalogue.get(path)
    if checkpoint is None:
        raise NotFoundError(f"There is no checkpoint {path} on this server: it expired or was deleted.")
    files = checkpoint.files()
    return {name: file for name, file in files.items() if path.kind is not Kind.TRAINING or name in ADAPTER_FILES}


def _link(request: Request, route: str, path: CheckpointPath, file: str = "") -> Link:
    target = route.replace("{file:path}", "{file}").format(run_id=path.run, kind=path.kind, name=path.name, file=file)
    return service_of(request).links.sign(PREFIX + target)


def _absolute(request: Request, link: Link) -> str:
    """A link as the client can reach it: below `public_url`, else at the address that this request came to."""
    return (service_of(request).public_url or str(request.base_url)).rstrip("/") + link.target


def _check(request: Request, expires: str, signature: str) -> None:
    service_of(request).links.check(request.scope["path"], expires, signature)
