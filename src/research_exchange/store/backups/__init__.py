"""Backups: one file with every row, and all bytes that rows name, as they were at one moment.

The file is a ZIP archive with `backup.json` (what is in it), `rows/<table>.jsonl` and `blobs/<sha256>`. It does not
depend on which database and which evidence store it was made from, so it also moves an Exchange from one to another.
"""

from research_exchange.store.backups.making import FileExists, back_up
from research_exchange.store.backups.manifest import Manifest
from research_exchange.store.backups.reading import BackupFile, BadBackup, open_backup
from research_exchange.store.backups.restoring import NotEmpty, restore

__all__ = [
    "BackupFile",
    "BadBackup",
    "FileExists",
    "Manifest",
    "NotEmpty",
    "back_up",
    "open_backup",
    "restore",
]
