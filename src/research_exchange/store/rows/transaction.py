"""What every question and every addition needs: the transaction's connection and a few short forms."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, FromClause, Row, Select, Table, func, insert, select


class Transaction:
    """One transaction on the database: what it reads is one consistent moment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _all(self, query: Select[Any]) -> list[Row[Any]]:
        return list(self._connection.execute(query))

    def _one(self, query: Select[Any]) -> Row[Any] | None:
        return self._connection.execute(query).one_or_none()

    def _count(self, source: FromClause, *conditions: ColumnElement[bool]) -> int:
        query = select(func.count()).select_from(source).where(*conditions)
        return self._connection.execute(query).scalar_one()

    def _last(self, counter: Column[int], *conditions: ColumnElement[bool]) -> int:
        """The highest value of a column that counts from 1; 0 before the first."""
        query = select(func.coalesce(func.max(counter), 0)).where(*conditions)
        return self._connection.execute(query).scalar_one()

    def _add(self, table: Table, **values: object) -> None:
        self._connection.execute(insert(table), values)


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def fields(row: Row[Any], left_out: str = "", **read: Callable[[Any], object]) -> dict[str, Any]:
    """A row's columns by name, for a record whose fields have the same names.

    Args:
        row: The row.
        left_out: A column that the record does not have.
        read: For a column that is kept in another form than the record's: what turns one into the other.
    """
    columns = {name: value for name, value in row._mapping.items() if name != left_out}
    return {name: read[name](value) if name in read else value for name, value in columns.items()}
