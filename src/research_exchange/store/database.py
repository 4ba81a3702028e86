"""The database connection: SQLite set up so that a committed row survives a power cut, and its schema kept current."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event

BUSY_TIMEOUT_MS = 30_000
"""How long a writer waits for another one before it gives up."""

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)


class Database:
    """An engine whose transactions are either reads of one moment or writes, one writer at a time."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self._migrate()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that holds the write lock from its start: what it reads is still true when it writes."""
        with self._engine.connect().execution_options(immediate=True) as connection, connection.begin():
            yield connection

    def close(self) -> None:
        self._engine.dispose()

    def _migrate(self) -> None:
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.set_main_option("path_separator", "os")
        with self.writing() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def _engine(url: str) -> Engine:
    # No limit of its own: a thread that waits for the write lock must not keep readers from their connections.
    engine = create_engine(url, pool_size=0)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, _: Any) -> None:
    # The driver would open transactions at moments of its own choice; `_begin` says when.
    connection.isolation_level = None
    for pragma in (f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}", *_PRAGMAS):
        connection.execute(pragma).close()


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN DEFERRED")
