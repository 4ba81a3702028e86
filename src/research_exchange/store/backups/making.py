"""Making a backup while the Exchange goes on."""

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import Connection, Table

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.store import tables
from research_exchange.store.backups.manifest import MANIFEST, Manifest, blob_entry, rows_entry
from research_exchange.store.backups.rows import column_kinds, rows_of, to_line
from research_exchange.store.database import schema_of
from research_exchange.store.store import Store

BACKED_UP = tuple(table for table in tables.metadata.sorted_tables if table not in tables.CACHES)
"""In an order in which no row comes before one that it refers to."""


class FileExists(OSError):
    """A backup is never written over something, as one sentence."""


def back_up(store: Store, target: Path, at: datetime) -> Manifest:
    """Write a backup that its owner alone can read, all of it or nothing.

    Args:
        store: May be in use meanwhile; what is added after this began is not in the backup.
        target: The new file.
        at: The present moment.

    Raises:
        FileExists: There is something at `target` already.
        OSError: The file cannot be written, or the evidence cannot be read.
    """
    with _new_file(target) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        with store.snapshot() as connection:
            rows = {table.name: _add_rows(archive, connection, table) for table in BACKED_UP}
            named = tables.blobs_named(connection)
            schema = schema_of(connection)
        lost = [digest for digest in sorted(named) if not _add_blob(archive, store, digest)]
        manifest = Manifest(
            made_at=at.isoformat(),
            schema=schema,
            made_by=f"research-exchange {version('research-exchange')}",
            rows=rows,
            columns={table.name: column_kinds(table) for table in BACKED_UP},
            blobs=len(named) - len(lost),
            lost=lost,
        )
        archive.writestr(MANIFEST, json.dumps(asdict(manifest), indent=2) + "\n")
    return manifest


def _add_rows(archive: zipfile.ZipFile, connection: Connection, table: Table) -> int:
    count = 0
    with archive.open(rows_entry(table.name), "w", force_zip64=True) as file:
        for row in rows_of(connection, table):
            file.write(to_line(row))
            count += 1
    return count


def _add_blob(archive: zipfile.ZipFile, store: Store, digest: str) -> bool:
    try:
        content = store.blobs.open(digest)
    except EvidenceLost:
        return False
    with content, archive.open(blob_entry(digest), "w", force_zip64=True) as file:
        shutil.copyfileobj(content, file)
    return True


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """A file beside `target` that becomes it, unless something is there or the block fails."""
    _refuse_to_replace(target)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        try:
            target.hardlink_to(temporary)  # unlike a rename it never replaces anything
        except FileExistsError:
            _refuse_to_replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _refuse_to_replace(target: Path) -> None:
    if target.exists():
        raise FileExists(f"{target} is there already, and a backup replaces nothing; name a new file.")
