"""The store as a whole: a data folder with a database and evidence bytes in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from research_exchange.store.blobs import BlobStore, open_blobs
from research_exchange.store.database import Database
from research_exchange.store.transactions import Reader, Writer

DATABASE_FILE = "exchange.sqlite3"


class Store:
    """A database and its blobs, opened together. Safe to use from several threads and processes at once."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self.blobs = blobs

    @classmethod
    def open(
        cls, data: Path, database_url: str | None = None, evidence_url: str | None = None, schema: str = "head"
    ) -> "Store":
        """Open the data folder, make it when it is new, and bring an older schema up to date.

        Args:
            data: The folder; readable by its owner alone when this makes it.
            database_url: An SQLAlchemy URL, where the database shall not be `<data>/exchange.sqlite3`.
            evidence_url: `s3://bucket/prefix?endpoint=…`, where evidence shall not be in `<data>/blobs`.
            schema: The number of the schema to bring it up to; by default the newest.

        Raises:
            BadDatabaseUrl: The database is of another kind, or its driver is not installed.
            StorageUnreachable: The evidence store does not answer, or does not let us in.
        """
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = Database(database_url or f"sqlite:///{data.resolve() / DATABASE_FILE}", schema)
        return cls(database, open_blobs(evidence_url, data))

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with self._database.reading() as connection:
            yield Reader(connection)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Commits when the block ends well; an exception leaves nothing of it behind."""
        with self._database.writing() as connection:
            yield Writer(connection)

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """One moment of all rows, for whoever copies them as they are."""
        with self._database.reading() as connection:
            yield connection

    @contextmanager
    def adding_rows(self) -> Iterator[Connection]:
        """A transaction for whoever adds rows as they were, all of them or none."""
        with self._database.writing() as connection:
            yield connection

    def upgrade(self) -> None:
        """Bring an older schema up to date."""
        self._database.upgrade()

    def close(self) -> None:
        self._database.close()
