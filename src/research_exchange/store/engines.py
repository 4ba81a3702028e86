"""How each kind of database keeps two promises: what is committed survives a power cut, and one writes at a time."""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Any, Protocol

from sqlalchemy import URL, Connection, create_engine, event, text
from sqlalchemy.exc import OperationalError

from research_exchange.store.prepared import on_driver

BUSY_TIMEOUT_MS = 30_000
"""How long a writer waits for another one before it gives up."""
_DISCREET = {"hide_parameters": True}
"""An error, which is logged, names no value of the row that was to be written: it may be a hook's address."""


class Backend(Protocol):
    """A kind of database."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one moment and changes nothing."""
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that holds the write lock from its start: what it reads is still true when it writes."""
        ...

    def close(self) -> None:
        """Let go of every connection."""
        ...


class SQLite:
    """One file. Readers go on while one writes.

    Transactions are begun and ended in SQLite's own words: when to is the driver's choice otherwise, and SQLAlchemy's
    layers around them take as long as a statement.
    """

    _PRAGMAS = (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA foreign_keys = ON",
    )

    def __init__(self, url: URL) -> None:
        # No limit of its own: a thread that waits for the write lock must not keep readers from their connections.
        self._engine = create_engine(url, pool_size=0, paramstyle="named", **_DISCREET)
        event.listen(self._engine, "connect", self._prepare)
        self._turn = Lock()
        self._writer: Connection | None = None
        """The connection that writes, kept between transactions; one that an exception has left behind is not."""

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._engine.connect() as connection, connection.begin():
            on_driver(connection, "BEGIN DEFERRED")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        # Threads take turns here: SQLite would let each that waits sleep for longer and longer and then look again.
        if not self._turn.acquire(timeout=BUSY_TIMEOUT_MS / 1000):
            raise OperationalError(
                "BEGIN IMMEDIATE", None, TimeoutError("other threads have been writing for too long")
            )
        try:
            writer = self._writer = self._writer or self._open_writer()
            on_driver(writer, "BEGIN IMMEDIATE")
            yield writer
            on_driver(writer, "COMMIT")
        except BaseException:
            self._close_writer()
            raise
        finally:
            self._turn.release()

    def close(self) -> None:
        with self._turn:
            self._close_writer()
        self._engine.dispose()

    def _open_writer(self) -> Connection:
        connection = self._engine.connect()
        # To SQLAlchemy it is one transaction without an end, so that it begins and commits none by itself.
        connection.begin()
        return connection

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _prepare(self, connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None
        for pragma in (f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}", *self._PRAGMAS):
            connection.execute(pragma).close()


class PostgreSQL:
    """A server, for an Exchange that others write to from more than one machine."""

    _WRITE_LOCK = 0x52585F5752495445
    """The advisory lock that a writer holds; the number spells RX_WRITE."""

    def __init__(self, url: URL) -> None:
        # A connection that the server has closed meanwhile is found out before it is used.
        postgresql = url.set(drivername="postgresql+psycopg")
        self._engine = create_engine(postgresql, pool_size=0, pool_pre_ping=True, **_DISCREET)
        event.listen(self._engine, "connect", self._prepare)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                # Each statement after this sees whatever earlier writers committed.
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": self._WRITE_LOCK})
                yield connection

    def close(self) -> None:
        self._engine.dispose()

    @staticmethod
    def _prepare(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {BUSY_TIMEOUT_MS}")
            cursor.execute("SET synchronous_commit = on")
        connection.commit()
