"""Where a Spindle of this machine is: its data folder, and the files in it that lead to it and say who uses it.

Spindle writes them and the Exchange's runner reads them. Neither imports the other; both import this, which imports
nothing but the standard library.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["SERVER_FILE", "USERS_FILE", "Announcement", "data_directory"]

SERVER_FILE = "server.json"
"""In the data folder, while a server has it: its announcement."""
USERS_FILE = "users.lock"
"""In the data folder: every runner that uses its server holds a shared lock on it."""


def data_directory(given: Path | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """The data folder: as given, else `$SPINDLE_DATA`, else the platform's place for user data."""
    if given is not None:
        return given.expanduser().absolute()
    if configured := environment.get("SPINDLE_DATA"):
        return Path(configured).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "spindle"
    return Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "spindle"


@dataclass(frozen=True)
class Announcement:
    """What a server says of itself in its data folder, for its owner's eyes only."""

    pid: int
    secret: str = field(default="", repr=False)
    """Proves who answers at the address: `GET /api/v1/identity` shows that the server knows it, without telling it."""
    exports: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What a client needs in its environment, with a key unless each owner has their own; empty while it starts."""

    @property
    def url(self) -> str | None:
        """Where it is, once requests are answered."""
        return self.exports.get("TINKER_BASE_URL")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, data: Path) -> "Announcement | None":
        """That of a data folder; None where there is none, or one that is not this user's own.

        A server that was killed leaves its announcement behind.
        """
        try:
            with (data / SERVER_FILE).open() as file:
                if os.fstat(file.fileno()).st_uid != os.geteuid():
                    return None
                said = json.load(file)
            exports = {str(name): str(value) for name, value in said["exports"].items()}
            return cls(int(said["pid"]), str(said["secret"]), exports)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
