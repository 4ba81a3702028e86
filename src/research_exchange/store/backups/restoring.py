"""Bringing a backup back: into an empty database and evidence store of any kind, every byte hashed again."""

from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Integer, LargeBinary, column, func, insert, select, table
from sqlalchemy.types import TypeEngine

from research_exchange.store.backups.reading import BackupFile, BadBackup
from research_exchange.store.columns import Instant, Words
from research_exchange.store.database import known_schemas
from research_exchange.store.store import Store

_ROWS_AT_ONCE = 100
_TYPES: dict[str, TypeEngine[Any]] = {
    "bytes": LargeBinary(),
    "moment": Instant(),
    "integer": Integer(),
    "text": Words(),
}


class NotEmpty(Exception):
    """A backup is restored into nothing, never over something; as one sentence."""


def restore(backup: BackupFile, data: Path, database_url: str | None = None, evidence_url: str | None = None) -> None:
    """Bring back everything that a backup holds: all rows or none, after all their bytes.

    Args:
        backup: It is verified before anything is written. Rows of an older schema are brought up to date.
        data: The data folder.
        database_url: As for `Store.open`.
        evidence_url: As for `Store.open`.

    Raises:
        BadBackup: It is not whole, or a newer version made it; nothing was written.
        NotEmpty: There are rows already; nothing was written.
        EvidenceLost: The evidence store gave back other bytes than it was given; no row was written.
    """
    backup.verify()
    schema, newer = backup.manifest.schema, backup.manifest.made_by
    if schema not in known_schemas():
        raise BadBackup(f"{backup.path} was made by {newer}, newer than this version; restore it with that.")
    with closing(Store.open(data, database_url, evidence_url, schema)) as store:
        with store.snapshot() as connection:
            _refuse_unless_empty(connection, backup)
        for digest in backup.blobs:
            store.blobs.put_stream(backup.blob(digest), backup.size(digest))
        for digest in backup.blobs:
            store.blobs.open(digest).close()
        with store.adding_rows() as connection:
            _refuse_unless_empty(connection, backup)
            for name in backup.manifest.rows:
                _add(connection, name, backup)
        store.upgrade()


def _refuse_unless_empty(connection: Connection, backup: BackupFile) -> None:
    for name in backup.manifest.rows:
        rows = connection.execute(select(func.count()).select_from(table(name))).scalar_one()
        if rows:
            raise NotEmpty(
                f"The database has {rows} rows of {name} already, and a backup replaces nothing; name an empty place."
            )


def _add(connection: Connection, name: str, backup: BackupFile) -> None:
    kinds = backup.manifest.columns[name]
    into = insert(table(name, *(column(each, _TYPES[kind]) for each, kind in kinds.items())))
    rows = backup.rows(name)
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        connection.execute(into, some)
