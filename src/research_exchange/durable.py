"""What it takes for files to outlive a power cut, for whoever keeps some: the store, and a script's spool."""

import os
import sys
from pathlib import Path

__all__ = ["sync_folder"]


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk: a file that was made or renamed survives only with its name.

    Windows does so by itself.
    """
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
