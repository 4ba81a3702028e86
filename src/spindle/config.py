"""Where Spindle keeps its things, and what a server is started with."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8250


@dataclass(frozen=True)
class ServeOptions:
    """One server."""

    data: Path
    """Checkpoints, the key, and pulled models."""
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    """0 takes any free port."""
    models: Mapping[str, Path] = field(default_factory=dict)
    """Base models by name; empty serves the default model, pulled when missing."""


def data_directory(given: Path | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """The data folder: as given, else `$SPINDLE_DATA`, else the platform's place for user data."""
    if given is not None:
        return given.expanduser().absolute()
    if configured := environment.get("SPINDLE_DATA"):
        return Path(configured).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "spindle"
    return Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "spindle"
