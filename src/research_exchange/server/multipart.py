"""A file that comes as a form, the way browsers and `curl -F` send one."""

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from research_exchange.evidence import MAX_FILE_BYTES
from research_exchange.server.errors import ApiError
from research_exchange.server.limits import MIB, capped
from research_exchange.store import Incoming

FILE_FIELD = "file"
_ROOM_FOR_FIELDS = MIB
_MAX_FIELDS = 10
_CHUNK = 256 * 1024


async def receive_form(request: Request, incoming: Incoming) -> dict[str, str]:
    """Write the form's one file into `incoming`, and return its other fields.

    Raises:
        ApiError: 413 when the form is too large, 422 when it is none or has no file.
    """
    body = capped(request.stream(), MAX_FILE_BYTES + _ROOM_FOR_FIELDS)
    parser = MultiPartParser(request.headers, body, max_files=1, max_fields=_MAX_FIELDS)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise ApiError(422, f"The form cannot be read: {error.message}") from None
    try:
        file = form.get(FILE_FIELD)
        if not isinstance(file, UploadFile):
            raise ApiError(422, f"The form needs a file in its field {FILE_FIELD!r}.")
        while chunk := await file.read(_CHUNK):
            incoming.write(chunk)
        return {name: value for name, value in form.items() if isinstance(value, str)}
    finally:
        await form.close()
