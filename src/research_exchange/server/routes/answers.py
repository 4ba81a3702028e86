"""Shapes that several routes answer in."""

from collections.abc import Sequence

from fastapi import Request, Response

from research_exchange.documents.json import JsonValue
from research_exchange.server.intake import FileAnswer


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


def listing(name: str, rows: Sequence[JsonValue], total: int, offset: int) -> dict[str, JsonValue]:
    """A page of a list: its rows under their name, how many there are in all, and the next page's offset or null."""
    end = offset + len(rows)
    return {name: [*rows], "total": total, "next": end if rows and end < total else None}


def file_json(answer: FileAnswer) -> dict[str, JsonValue]:
    return {
        "name": answer.name,
        "status": answer.admission.status.value,
        "kind": answer.admission.kind,
        "sha256": answer.admission.sha256,
        "problems": file_problems(answer),
    }


def file_problems(answer: FileAnswer) -> list[JsonValue]:
    return [str(problem) for problem in answer.admission.problems]
