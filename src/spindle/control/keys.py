"""The API key: from the environment, else generated once and kept for the owner's eyes only."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

PREFIX = "tml-"
"""Clients refuse to send keys that start otherwise."""


class KeyProblemError(Exception):
    """The configured key cannot work; one sentence."""


def api_key(data: Path, environment: Mapping[str, str]) -> str:
    """The key clients must send: `SPINDLE_API_KEY`, else the one in `<data>/api-key` (made on first use, mode 0600)."""
    given = environment.get("SPINDLE_API_KEY")
    if given is not None:
        if not given.startswith(PREFIX) or len(given) < 12:
            raise KeyProblemError(f"SPINDLE_API_KEY must start with {PREFIX} and be at least 12 characters long.")
        return given
    path = data / "api-key"
    if not path.exists():
        _write_secret(path, PREFIX + secrets.token_urlsafe(32))
    return path.read_text().strip()


def _write_secret(path: Path, secret: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secret + "\n")
    draft.replace(path)
