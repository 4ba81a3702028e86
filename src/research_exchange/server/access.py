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

ADMIN_TOKEN_FILE = "admin-token"
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

    def may_read(self, run_id: str | None) -> bool:
        """Whether they may read what belongs to a run; `run_id` is None for what belongs to none.

        A runner reads its own run and nothing else, so that a token in a runner's hands tells nothing of other runs.
        """
        return self.role is not Role.RUNNER or (run_id is not None and run_id == self.run_id)

    def runs(self, run_id: str) -> bool:
        """Whether they are the runner of this run."""
        return self.role is Role.RUNNER and self.run_id == run_id


FIRST_ADMIN = Caller(Role.ADMIN, ADMIN, "the administrator")


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
