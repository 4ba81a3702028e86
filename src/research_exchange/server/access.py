"""Who is asking, and what each role may do (R-241).

A token's secret is shown once, when it is made; what is kept of it is its SHA-256. The administrator's first token is
the exception: whoever can read the data folder can read it there.
"""

import hmac
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from research_exchange.store import Role
from research_exchange.whereabouts import ADMIN_TOKEN_FILE

ADMIN_TOKEN_VARIABLE = "RX_ADMIN_TOKEN"
ADMIN = "admin"
"""The actor's name of the administrator's first token, which has no number in the database."""


@dataclass(frozen=True)
class Caller:
    """Whoever a request comes from."""

    role: Role
    actor: str
    """As the audit log names it: the id of a token, or `ADMIN`."""
    name: str
    """Whom or what the token was made for."""
    run_id: str | None = None
    """The one run of a runner."""

    @property
    def may_research(self) -> bool:
        """Whether ideas, specs and runs are theirs to make."""
        return self.role in (Role.ADMIN, Role.RESEARCHER)

    def runs(self, run_id: str) -> bool:
        """Whether they are the runner of this run."""
        return self.role is Role.RUNNER and self.run_id == run_id


FIRST_ADMIN = Caller(Role.ADMIN, ADMIN, "the administrator")


def admin_token(data: Path, environment: Mapping[str, str] = os.environ) -> str:
    """The administrator's token: `RX_ADMIN_TOKEN`, else the one kept in the data folder, made when there is none.

    It is never empty: a file that lost what it held, or a variable of spaces, would let in whoever sends no token.
    """
    if given := environment.get(ADMIN_TOKEN_VARIABLE, "").strip():
        return given
    path = data / ADMIN_TOKEN_FILE
    if kept := path.read_text().strip() if path.exists() else "":
        return kept
    made = f"rxa_{secrets.token_urlsafe(32)}"
    write_private(path, f"{made}\n")
    return made


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, all of it or nothing, also when the power is cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def same_secret(given: str, known: str) -> bool:
    """Equality that takes the same time wherever the two differ."""
    return hmac.compare_digest(given.encode(), known.encode())
