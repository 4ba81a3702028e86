"""Who is asking: the administrator of this Exchange, or the runner of one run (R-241)."""

import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ADMIN_TOKEN_FILE = "admin-token"
ADMIN_TOKEN_VARIABLE = "RX_ADMIN_TOKEN"


@dataclass(frozen=True)
class Admin:
    """May register specs and start runs."""


@dataclass(frozen=True)
class Runner:
    """May report to its one run."""

    run_id: str


Caller = Admin | Runner


def admin_token(data: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The administrator's token: `RX_ADMIN_TOKEN`, else the one kept in the data folder, made when it is new."""
    if given := environment.get(ADMIN_TOKEN_VARIABLE):
        return given
    path = data / ADMIN_TOKEN_FILE
    if not path.exists():
        write_private(path, f"rxa_{secrets.token_urlsafe(32)}\n")
    return path.read_text().strip()


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    temporary.replace(path)


def same_secret(given: str, known: str) -> bool:
    """Equality that takes the same time wherever the two differ."""
    return hmac.compare_digest(given.encode(), known.encode())
