"""Rows as lines of JSON that either kind of database can write and read."""

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, Connection, Integer, LargeBinary, Table, select

from research_exchange.store import tables
from research_exchange.store.columns import Instant

_COUNTERS = {"sessions": ("run_id", "number")}
"""Where it is not the primary key that counts without gaps: the order in which rows can be added again."""


def column_kinds(table: Table) -> dict[str, str]:
    """`bytes`, `moment`, `integer` or `text` for each column."""
    return {column.name: _kind(column) for column in table.columns}


def rows_of(connection: Connection, table: Table) -> Iterator[dict[str, Any]]:
    """Every row as JSON values, in an order in which they can be added again."""
    keys = _COUNTERS.get(table.name, tuple(column.name for column in table.primary_key))
    kinds = column_kinds(table)
    query = select(table).order_by(*(table.c[key] for key in keys))
    rows = (
        {name: _written(value, kinds[name]) for name, value in row.items()}
        for row in connection.execute(query).mappings()
    )
    return _earlier_first(rows) if table is tables.runs else rows


def to_line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def from_line(line: bytes, kinds: Mapping[str, str]) -> dict[str, Any]:
    """A row as the database takes it.

    Raises:
        ValueError: The line is not a row of columns of these kinds.
    """
    row = json.loads(line)
    if not isinstance(row, dict) or set(row) != set(kinds):
        raise ValueError("a row does not have the columns of its table")
    return {name: _read(value, kinds[name]) for name, value in row.items()}


def _kind(column: Column[Any]) -> str:
    match column.type:
        case LargeBinary():
            return "bytes"
        case Instant():
            return "moment"
        case Integer():
            return "integer"
        case _:
            return "text"


def _written(value: Any, kind: str) -> Any:
    if value is None:
        return None
    match kind:
        case "bytes":
            return base64.b64encode(value).decode()
        case "moment":
            return value.astimezone(UTC).isoformat()
        case _:
            return value


def _read(value: Any, kind: str) -> Any:
    if value is None:
        return None
    match kind:
        case "bytes":
            return base64.b64decode(value, validate=True)
        case "moment":
            return datetime.fromisoformat(value)
        case _:
            return value


def _earlier_first(runs: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A run after the one that it repeats."""
    waiting: dict[str, list[dict[str, Any]]] = {}
    first: list[dict[str, Any]] = []
    for run in runs:
        (first if run["redo_of"] is None else waiting.setdefault(run["redo_of"], [])).append(run)
    while first:
        run = first.pop()
        yield run
        first += waiting.pop(run["id"], [])
