"""How each kind of database keeps two promises: what is committed survives a power cut, and one writes at a time."""

import sqlite3
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy import URL, Connection, Engine, create_engine, event, text

BUSY_TIMEOUT_MS = 30_000
"""How long a writer waits for another one before it gives up."""
_DISCREET = {"hide_parameters": True}
"""An error, which is logged, names no value of the row that was to be written: it may be a hook's address."""


class Backend(Protocol):
    """A kind of database."""

    engine: Engine

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection whose next transaction sees one moment and changes nothing."""
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """A connection whose next transaction writes."""
        ...

    def lock(self, connection: Connection) -> None:
        """Wait until no other transaction writes, at the start of one that does."""
        ...


class SQLite:
    """One file. Readers go on while one writes."""

    _PRAGMAS = (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA foreign_keys = ON",
    )

    def __init__(self, url: URL) -> None:
        # No limit of its own: a thread that waits for the write lock must not keep readers from their connections.
        self.engine = create_engine(url, pool_size=0, **_DISCREET)
        event.listen(self.engine, "connect", self._prepare)
        event.listen(self.engine, "begin", self._begin)

    def reading(self) -> AbstractContextManager[Connection]:
        return self.engine.connect()

    def writing(self) -> AbstractContextManager[Connection]:
        return self.engine.connect().execution_options(immediate=True)

    def lock(self, connection: Connection) -> None:
        """`BEGIN IMMEDIATE` has done it."""

    def _prepare(self, connection: sqlite3.Connection, _: Any) -> None:
        # The driver would open transactions at moments of its own choice; `_begin` says when.
        connection.isolation_level = None
        for pragma in (f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}", *self._PRAGMAS):
            connection.execute(pragma).close()

    @staticmethod
    def _begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN DEFERRED")


class PostgreSQL:
    """A server, for an Exchange that others write to from more than one machine."""

    _WRITE_LOCK = 0x52585F5752495445
    """The advisory lock that a writer holds; the number spells RX_WRITE."""

    def __init__(self, url: URL) -> None:
        # A connection that the server has closed meanwhile is found out before it is used.
        postgresql = url.set(drivername="postgresql+psycopg")
        self.engine = create_engine(postgresql, pool_size=0, pool_pre_ping=True, **_DISCREET)
        event.listen(self.engine, "connect", self._prepare)

    def reading(self) -> AbstractContextManager[Connection]:
        return self.engine.connect().execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def writing(self) -> AbstractContextManager[Connection]:
        return self.engine.connect().execution_options(isolation_level="READ COMMITTED")

    def lock(self, connection: Connection) -> None:
        """Each statement after this sees whatever earlier writers committed."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": self._WRITE_LOCK})

    @staticmethod
    def _prepare(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {BUSY_TIMEOUT_MS}")
            cursor.execute("SET synchronous_commit = on")
        connection.commit()
