"""Where Spindle keeps its things, and what a server takes when nothing else is said."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8250
DEFAULT_GRACE = 60.0
"""Seconds that a running computation may take to end when the server stops."""


def data_directory(given: Path | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """The data folder: as given, else `$SPINDLE_DATA`, else the platform's place for user data."""
    if given is not None:
        return given.expanduser().absolute()
    if configured := environment.get("SPINDLE_DATA"):
        return Path(configured).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "spindle"
    return Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "spindle"
