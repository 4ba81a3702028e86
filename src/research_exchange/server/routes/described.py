"""What a route answers, for the OpenAPI document: an example, or a media type."""

from typing import Any

from research_exchange.documents.json import JsonValue

Described = dict[int | str, dict[str, Any]]
"""Answers by status."""

UPDATE: JsonValue = {
    "sequence": 1,
    "received_at": "2026-03-01T12:00:00.000Z",
    "sha256": "…",
    "size": 80,
    "session": "ses_0123456789",
}
"""An update without its bytes, as an example."""


def answers(example: JsonValue, status: int = 200, description: str = "Done.") -> Described:
    """What a route answers when all is well, for `responses`."""
    return {status: {"description": description, "content": {"application/json": {"example": example}}}}


def answers_bytes(media_type: str, description: str, status: int = 200) -> Described:
    """The same for what is not JSON."""
    schema = {"type": "string", "format": "binary"}
    return {status: {"description": description, "content": {media_type: {"schema": schema}}}}
