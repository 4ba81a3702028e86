"""The database: its schema kept current, and transactions of which at most one writes at a time."""

from contextlib import AbstractContextManager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, make_url
from sqlalchemy.exc import ArgumentError

from research_exchange.store.engines import Backend, PostgreSQL, SQLite


class BadDatabaseUrl(OSError):
    """A database that this Exchange cannot use, as one sentence without a password in it."""


class Database:
    """A database whose transactions are either reads of one moment or writes, one writer at a time."""

    def __init__(self, url: str, schema: str = "head") -> None:
        """
        Args:
            url: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`.
            schema: The number of the schema to bring it up to; by default the newest.

        Raises:
            BadDatabaseUrl: It is another one, or its driver is not installed.
        """
        self._backend = _backend(url)
        self.upgrade(schema)

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that sees one moment and changes nothing."""
        return self._backend.reading()

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that holds the write lock from its start: what it reads is still true when it writes."""
        return self._backend.writing()

    def close(self) -> None:
        self._backend.close()

    def upgrade(self, schema: str = "head") -> None:
        """Bring an older schema up to date."""
        config = _migrations()
        with self.writing() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, schema)


def known_schemas() -> set[str]:
    """The numbers of this version's schema and of every older one."""
    return {script.revision for script in ScriptDirectory.from_config(_migrations()).walk_revisions()}


def _migrations() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def schema_of(connection: Connection) -> str:
    """The number of the schema that a database has."""
    revision = MigrationContext.configure(connection).get_current_revision()
    assert revision is not None, "a database that was opened has a schema"
    return revision


def _backend(text: str) -> Backend:
    try:
        url = make_url(text)
    except ArgumentError:
        raise BadDatabaseUrl(f"The database URL must have the form {_FORMS}.") from None
    try:
        match url.get_backend_name():
            case "sqlite":
                return SQLite(url)
            case "postgresql" | "postgres":
                return PostgreSQL(url)
            case other:
                raise BadDatabaseUrl(f"The database URL must have the form {_FORMS}; {other} is not supported.")
    except ModuleNotFoundError:
        raise BadDatabaseUrl(
            "Using PostgreSQL takes a further package: pip install 'research-exchange[postgres]'."
        ) from None


_FORMS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
