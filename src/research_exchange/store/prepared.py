"""Statements that every posted update asks, put together once and handed to the database's own driver.

SQLAlchemy takes several times as long to bring such a statement to the driver as SQLite takes to answer it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ClauseElement, Connection, Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

_Processor = Callable[[Any], Any]


@dataclass(frozen=True)
class _Compiled:
    """A statement in the words of one kind of database."""

    text: str
    constants: Mapping[str, object]
    """Parameters that the statement itself has the values of, such as a limit."""
    processors: Sequence[tuple[str, _Processor]]
    """For each parameter whose value the driver takes in another form."""


class Prepared:
    """A statement with named parameters. Its rows come back as the driver gives them: no moment, no JSON among them."""

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    def rows(self, connection: Connection, **values: object) -> list[tuple[Any, ...]]:
        """Run it inside the connection's transaction.

        Raises:
            DBAPIError: as for any other statement, and without the values.
        """
        dialect = connection.dialect
        compiled = self._compiled.get(dialect.name) or self._compile(dialect)
        values.update(compiled.constants)
        for name, process in compiled.processors:
            values[name] = process(values[name])
        return on_driver(connection, compiled.text, values)

    def _compile(self, dialect: Dialect) -> _Compiled:
        compiled = self._statement.compile(dialect=dialect)
        assert isinstance(compiled, SQLCompiler), "a statement of rows, none of the schema"
        processors = {
            name: bind.type.dialect_impl(dialect).bind_processor(dialect) for name, bind in compiled.binds.items()
        }
        made = self._compiled[dialect.name] = _Compiled(
            str(compiled),
            {name: bind.value for name, bind in compiled.binds.items() if not bind.required},
            [(name, processor) for name, processor in processors.items() if processor is not None],
        )
        return made


def on_driver(connection: Connection, text: str, values: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
    """What the driver answers to a statement in its own words.

    Raises:
        DBAPIError: the driver's error under the name that it has with SQLAlchemy.
    """
    cursor = connection.connection.cursor()
    try:
        cursor.execute(text, values or {})
        return list(cursor.fetchall()) if cursor.description else []
    except connection.dialect.loaded_dbapi.Error as error:
        base = connection.dialect.loaded_dbapi.Error
        raise DBAPIError.instance(text, None, error, base, hide_parameters=True) from error
    finally:
        cursor.close()
