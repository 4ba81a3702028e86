"""Rows of evidence: compact JSON lines, in files that a run may retain (R-163)."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from research_exchange.evidence import MAX_FILE_BYTES

__all__ = ["chunks", "jsonl"]


def jsonl(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as UTF-8 JSON lines, each ended by a newline; NaN and infinity raise `ValueError`."""
    return b"".join(map(_line, rows))


def chunks(rows: Iterable[Mapping[str, Any]], limit: int = MAX_FILE_BYTES) -> Iterator[bytes]:
    """The same lines, in as few pieces of at most `limit` bytes as keep their order and split no row.

    Raises:
        ValueError: if one row alone is larger.
    """
    piece: list[bytes] = []
    size = 0
    for line in map(_line, rows):
        if len(line) > limit:
            raise ValueError(f"One row takes {len(line)} bytes, and a file at most {limit}; shorten its longest text.")
        if size + len(line) > limit:
            yield b"".join(piece)
            piece, size = [], 0
        piece.append(line)
        size += len(line)
    if piece:
        yield b"".join(piece)


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
