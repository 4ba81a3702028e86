"""Reading a backup, which somebody may have damaged or made up, and holding it to what it says of itself."""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

from research_exchange.store import tables
from research_exchange.store.backups.manifest import FORMAT, MANIFEST, Manifest, blob_entry, rows_entry
from research_exchange.store.backups.rows import from_line

_CHUNK = 1024 * 1024


class BadBackup(Exception):
    """A file that is no backup, or not a whole one, as one sentence."""


class BackupFile:
    """A backup that is open for reading."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self.manifest = self._read_manifest()
        self.blobs = [Path(name).name for name in archive.namelist() if name.startswith(blob_entry(""))]

    def verify(self) -> None:
        """Read all of it: every row, every update and every blob against its hash.

        Raises:
            BadBackup: Something is missing, damaged or too much.
        """
        named: set[str] = set()
        for table, expected in self.manifest.rows.items():
            found = 0
            for row in self.rows(table):
                found += 1
                named |= {row[column.name] for column in tables.BLOB_COLUMNS if column.table.name == table} - {None}
                if table == tables.updates.name and hashlib.sha256(row["raw"]).hexdigest() != row["sha256"]:
                    self._refuse(f"update {row['sequence']} of {row['run_id']} is not what was posted")
            if found != expected:
                self._refuse(f"it says that it has {expected} rows of {table}, and has {found}")
        missing = named - set(self.blobs) - set(self.manifest.lost)
        if missing or len(self.blobs) != self.manifest.blobs:
            self._refuse(f"{len(missing) or self.manifest.blobs - len(self.blobs)} of its evidence files are missing")
        for digest in self.blobs:
            self._verify_blob(digest)

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """The rows of a table, as a database takes them."""
        with self._entry(rows_entry(table)) as file:
            for line in file:
                try:
                    row = from_line(line, self.manifest.columns[table])
                except (ValueError, TypeError, KeyError) as error:
                    self._refuse(f"a row of {table} cannot be read ({error})")
                yield row

    def blob(self, sha256: str) -> Iterator[bytes]:
        """Bytes that rows name, in pieces."""
        with self._entry(blob_entry(sha256)) as file:
            while chunk := file.read(_CHUNK):
                yield chunk

    def size(self, sha256: str) -> int:
        return self._archive.getinfo(blob_entry(sha256)).file_size

    def _verify_blob(self, sha256: str) -> None:
        found = hashlib.sha256()
        for chunk in self.blob(sha256):
            found.update(chunk)
        if found.hexdigest() != sha256:
            self._refuse(f"the bytes of {sha256[:12]} have the hash {found.hexdigest()[:12]}")

    def _read_manifest(self) -> Manifest:
        with self._entry(MANIFEST) as file:
            try:
                manifest = Manifest(**json.load(file))
            except (ValueError, TypeError) as error:
                self._refuse(f"its {MANIFEST} cannot be read ({error})")
        if manifest.format != FORMAT:
            self._refuse(f"it has the format {manifest.format!r}, and this version reads {FORMAT}")
        return manifest

    @contextmanager
    def _entry(self, name: str) -> Iterator[IO[bytes]]:
        try:
            file = self._archive.open(name)
        except KeyError:
            self._refuse(f"it has no {name}")
        try:
            with file:
                yield file
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            self._refuse(f"its {name} is damaged ({error})")

    def _refuse(self, why: str) -> NoReturn:
        raise BadBackup(f"{self.path} is no whole backup: {why}.")


@contextmanager
def open_backup(path: Path) -> Iterator[BackupFile]:
    """Open a backup.

    Raises:
        BadBackup: It is none, or was made by a version with another format.
        OSError: It cannot be read.
    """
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise BadBackup(f"{path} is no backup: it is not a ZIP archive.") from None
    with archive:
        yield BackupFile(path, archive)
