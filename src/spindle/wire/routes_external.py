"""Getting weights out: exports, links that need no key, and what lies behind them."""

from collections.abc import Callable, Mapping
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

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

    def respond(files: Mapping[str, Path]) -> Response:
        if file not in files:
            raise NotFoundError(f"There is no file {file!r} in this checkpoint.")
        return FileResponse(files[file], media_type="application/octet-stream", filename=Path(file).name)

    return _lent(request, addressed(run_id, kind, name), respond)


@downloads.get(ARCHIVE)
def download_archive(
    request: Request, run_id: str, kind: str, name: str, expires: str = "", signature: str = ""
) -> Response:
    _check(request, expires, signature)

    def respond(files: Mapping[str, Path]) -> Response:
        headers = {"Content-Length": str(archive.length(files))}
        return StreamingResponse(archive.pieces(files), media_type="application/x-tar", headers=headers)

    return _lent(request, addressed(run_id, kind, name), respond)


class Lent(Response):
    """A response made of files that are given back when it was sent, or could not be."""

    background = None

    def __init__(self, response: Response, give_back: Callable[[], None]) -> None:
        self._response = response
        self._give_back = give_back

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            self._give_back()


def _lent(request: Request, path: CheckpointPath, respond: Callable[[Mapping[str, Path]], Response]) -> Response:
    """A response made of what may be downloaded of a checkpoint, and which keeps it: of a state, the adapter."""
    catalogue = service_of(request).catalogue
    checkpoint = catalogue.get(path)
    if checkpoint is None or not catalogue.borrow(path, checkpoint.directory):
        raise NotFoundError(f"There is no checkpoint {path} on this server: it expired or was deleted.")
    give_back = partial(catalogue.give_back, checkpoint.directory)
    files = checkpoint.files()
    wanted = {name: file for name, file in files.items() if path.kind is not Kind.TRAINING or name in ADAPTER_FILES}
    try:
        return Lent(respond(wanted), give_back)
    except Exception:
        give_back()
        raise


def _link(request: Request, route: str, path: CheckpointPath, file: str = "") -> Link:
    target = route.replace("{file:path}", "{file}").format(run_id=path.run, kind=path.kind, name=path.name, file=file)
    return service_of(request).links.sign(PREFIX + target)


def _absolute(request: Request, link: Link) -> str:
    """A link as the client can reach it: below `public_url`, else at the address that this request came to."""
    return (service_of(request).public_url or str(request.base_url)).rstrip("/") + link.target


def _check(request: Request, expires: str, signature: str) -> None:
    service_of(request).links.check(request.scope["path"], expires, signature)
