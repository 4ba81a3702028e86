"""Sessions as people look for them: those of this process, and earlier ones that left training runs on the disk."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from spindle.control.catalogue import Catalogue
from spindle.control.errors import NotFoundError
from spindle.control.lost import session_of
from spindle.control.records import TrainingRun
from spindle.control.sessions import About, Finish, Session, Sessions


@dataclass(frozen=True)
class Seen:
    """One session, live or not."""

    session_id: str
    owner: str
    created_at: datetime
    about: About
    project_id: str | None
    live: bool
    finish: Finish | None
    """None while it is live, and for one of an earlier process."""
    runs: list[str] = field(default_factory=list)
    """Its training runs, oldest first."""


@dataclass(frozen=True)
class History:
    """What can be told about sessions."""

    sessions: Sessions
    catalogue: Catalogue

    def list(self, owner: str) -> list[Seen]:
        """An owner's sessions, newest first."""
        found = [session for session in self._all() if session.owner == owner]
        return sorted(found, key=lambda session: (session.created_at, session.session_id), reverse=True)

    def get(self, owner: str, session_id: str) -> Seen:
        """One of an owner's sessions."""
        for session in self.list(owner):
            if session.session_id == session_id:
                return session
        raise NotFoundError(f"There is no session {session_id} on this server.")

    def assign_project(self, owner: str, session_id: str, project_id: str) -> None:
        """Move a session and its training runs into a project."""
        session = self.get(owner, session_id)
        if self.sessions.was_here(session.session_id):
            self.sessions.get(session_id).project_id = project_id
        self.catalogue.assign_project(session_id, project_id)

    def size(self, session: Seen) -> tuple[int, int]:
        """Checkpoints of a session, and their bytes."""
        checkpoints = [checkpoint for run in session.runs for checkpoint in self.catalogue.checkpoints(run)]
        return len(checkpoints), sum(checkpoint.size_bytes for checkpoint in checkpoints)

    def _all(self) -> Iterator[Seen]:
        runs: dict[str, list[TrainingRun]] = {}
        for run in reversed(self.catalogue.index.runs()):
            runs.setdefault(session_of(run.run_id), []).append(run)
        for session in self.sessions.all():
            yield _of_this_process(session, [run.run_id for run in runs.pop(session.session_id, [])])
        for session_id, remaining in runs.items():
            if trained := [run for run in remaining if run.copied_from is None]:
                yield _of_earlier(session_id, trained)


def _of_this_process(session: Session, runs: list[str]) -> Seen:
    return Seen(
        session.session_id,
        session.owner,
        session.created_at,
        session.about,
        session.project_id,
        session.finish is None,
        session.finish,
        runs,
    )


def _of_earlier(session_id: str, runs: list[TrainingRun]) -> Seen:
    first = runs[0]
    return Seen(
        session_id,
        first.owner,
        first.created_at,
        About(),
        first.project_id,
        live=False,
        finish=None,
        runs=[run.run_id for run in runs],
    )
