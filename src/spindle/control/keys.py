"""The API key: from the environment, else generated once and kept for the owner's eyes only."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

PREFIX = "tml-"
"""Clients refuse to send keys that start otherwise."""
SHORTEST = 12
"""Characters of a key."""


class KeyProblemError(Exception):
    """The configured key cannot work; one sentence."""


def api_key(data: Path, environment: Mapping[str, str]) -> str:
    """The key clients must send: `SPINDLE_API_KEY`, else the one in `<data>/api-key` (made on first use, mode 0600)."""
    given = environment.get("SPINDLE_API_KEY")
    if given is not None:
        return _checked(given, "SPINDLE_API_KEY", "set another one, or unset it to have one made")
    path = data / "api-key"
    if not path.exists():
        write_secret(path, PREFIX + secrets.token_urlsafe(32))
    return _checked(path.read_text(errors="replace").strip(), f"The key in {path}", "delete the file to have one made")


def is_key(text: str) -> bool:
    """Whether clients would send it."""
    return text.startswith(PREFIX) and len(text) >= SHORTEST


def _checked(key: str, what: str, remedy: str) -> str:
    """An empty key would let everybody in."""
    if not is_key(key):
        raise KeyProblemError(f"{what} must start with {PREFIX} and be at least {SHORTEST} characters long; {remedy}.")
    return key


def write_secret(path: Path, secret: str) -> None:
    """Write a file that its owner alone can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
