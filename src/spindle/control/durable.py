"""Writing so that a crash at any moment leaves the old or the new, never half of it."""

import os
import secrets
from pathlib import Path

DRAFT = ".draft"
"""Suffix of files that are not finished; a later process may delete them."""


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content; it is on the disk when this returns."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}{DRAFT}")
    try:
        draft.write_bytes(content)
        _sync(draft)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def remove(path: Path) -> None:
    """Delete a file, if it is there; it stays deleted once this returns."""
    path.unlink(missing_ok=True)
    _sync(path.parent)


def make_directory(path: Path) -> None:
    """Create a directory and what is missing above it; all of it is on the disk when this returns."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        _sync(path.parent)


def sync_tree(directory: Path) -> None:
    """Put every file of a directory on the disk, and the directory's entry in its parent."""
    for path in directory.rglob("*"):
        _sync(path)
    _sync(directory)
    _sync(directory.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
