"""One shape for every answer that is not a success: `{"error": sentence, "status": number, "problems": [...]}`."""

import errno
import logging
import re
from collections.abc import Mapping, Sequence

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError, OperationalError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from research_exchange.documents.json import JsonValue
from research_exchange.store import BlobTooLarge, StorageUnreachable

log = logging.getLogger(__name__)

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_RULE = re.compile(r"(R-[0-9A-F]{3}): ")
"""What a sentence begins with that a rule stands behind; the answer names it in `rule` too."""
_NOT_ACKNOWLEDGED = "What was sent is not acknowledged; send it again later."


class ApiError(Exception):
    """A request that is answered with an error.

    Args:
        status: The HTTP status.
        sentence: What is wrong and what to do, for a person.
        problems: The rules' own findings, when there are any.
        also: Further fields of the answer, e.g. the number under which a malformed update was stored.
    """

    def __init__(
        self,
        status: int,
        sentence: str,
        problems: Sequence[JsonValue] = (),
        also: Mapping[str, JsonValue] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.problems = problems
        self.also = also or {}


def unknown_spec(spec_id: str) -> ApiError:
    return ApiError(404, f"No spec {spec_id!r} is registered here; `rx save` (POST /api/specs) saves one.")


def unknown_run(run_id: str) -> ApiError:
    return ApiError(404, f"No run {run_id!r} is known here; `rx runs` (GET /api/runs) lists those that are.")


def unknown_idea(idea_id: str) -> ApiError:
    return ApiError(404, f"No idea {idea_id!r} is known here; `rx ideas` (GET /api/ideas) lists those that are.")


def error_response(
    status: int,
    sentence: str,
    problems: Sequence[JsonValue] = (),
    also: Mapping[str, JsonValue] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    body: dict[str, JsonValue] = {"error": sentence, "status": status, **(also or {})}
    if rule := _RULE.match(sentence):
        body["rule"] = rule[1]
    if problems:
        body["problems"] = list(problems)
    return JSONResponse(body, status, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Give everything that can go wrong in `app` the one error shape."""
    app.add_exception_handler(ApiError, _refused)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_exception_handler(RequestValidationError, _bad_parameter)
    app.add_exception_handler(OperationalError, _database_busy)
    app.add_exception_handler(DataError, _no_such_value)
    app.add_exception_handler(BlobTooLarge, _too_large)
    app.add_exception_handler(OSError, _storage_refused)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _own_fault)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
    return error_response(error.status, error.sentence, error.problems, error.also, headers)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentences = {
        404: f"Nothing is at {request.url.path}; /api/openapi.json lists what is.",
        405: f"{request.url.path} does not take {request.method}; /api/openapi.json lists what it takes.",
    }
    return error_response(error.status_code, sentences.get(error.status_code, error.detail), headers=error.headers)


async def _bad_parameter(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors()]
    return error_response(422, "A parameter of the request is missing or has the wrong form.", problems)


async def _too_large(request: Request, error: Exception) -> Response:
    return error_response(413, str(error))


async def _storage_refused(request: Request, error: Exception) -> Response:
    """What the disk or the evidence store did not take was not acknowledged; whoever sent it keeps it."""
    log.error("The storage refused: %s", error)
    if isinstance(error, OSError) and error.errno in _FULL:
        return error_response(507, f"The Exchange's disk is full. {_NOT_ACKNOWLEDGED}")
    if isinstance(error, StorageUnreachable):
        return error_response(503, f"{error} {_NOT_ACKNOWLEDGED}")
    return error_response(503, f"The Exchange's storage does not work at the moment. {_NOT_ACKNOWLEDGED}")


async def _database_busy(request: Request, error: Exception) -> Response:
    log.error("The database refused: %s", error)
    if "disk is full" in str(error):
        return error_response(507, f"The Exchange's disk is full. {_NOT_ACKNOWLEDGED}")
    return error_response(503, f"The Exchange's database is busy or unreachable at the moment. {_NOT_ACKNOWLEDGED}")


async def _no_such_value(request: Request, error: Exception) -> Response:
    """PostgreSQL takes no NUL in a text and no number beyond its columns, also where it is only asked for one."""
    return error_response(
        422, "A name or number of the request is none that can be on record: it holds NUL, or is huge."
    )


async def _gone(request: Request, error: Exception) -> Response:
    return error_response(400, "The request ended before its body did; nothing was stored, send it again.")


async def _own_fault(request: Request, error: Exception) -> Response:
    return error_response(
        500, "The Exchange met an error of its own and has logged it; nothing that it acknowledged is lost."
    )
