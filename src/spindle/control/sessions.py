"""Client sessions: alive while their heartbeats come, and owners of models and sampling sessions."""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from spindle.control.catalogue import utc_now
from spindle.control.errors import FullError, GoneError, NotFoundError
from spindle.control.limits import LATER

EXPIRY = 300.0
"""Seconds without a sign of life after which a session ends; clients beat every 10 s and warn after 120 s."""
KEEP_ENDED = 10_000
"""Ended sessions that are still listed."""


@dataclass(frozen=True)
class About:
    """What a client says about its session."""

    tags: tuple[str, ...] = ()
    user_metadata: Mapping[str, str] = field(default_factory=dict)
    sdk_version: str = ""
    project_id: str | None = None
    display_name: str | None = None


@dataclass(frozen=True)
class Finish:
    """How a session ended: `success`, `errored` or `interrupted` as its client said, or `silent`."""

    reason: str
    detail: str | None = None


SILENT = Finish("silent", "No heartbeat came for a while.")


@dataclass
class Session:
    session_id: str
    owner: str
    """Whose key opened it."""
    last_seen: float
    created_at: datetime
    about: About
    project_id: str | None = None
    finish: Finish | None = None
    """None while it is live."""
    idempotency_key: str | None = None


@dataclass
class Sessions:
    """The sessions of this process."""

    most: int
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = utc_now
    expiry: float = EXPIRY
    _live: dict[str, Session] = field(default_factory=dict)
    _ended: dict[str, Session] = field(default_factory=dict)

    def create(self, owner: str, about: About | None = None, idempotency_key: str | None = None) -> Session:
        """A new session; a retry with the same idempotency key gets the one it made before."""
        for session in self._live.values():
            if idempotency_key is not None and (session.owner, session.idempotency_key) == (owner, idempotency_key):
                return session
        if len(self._live) >= self.most:
            raise FullError(
                f"The server's limit sessions is reached: {self.most} are open; "
                f"close one, or wait until a silent one ends ({self.expiry:g} s).",
                "sessions",
                LATER,
            )
        about = about or About()
        session = Session(
            str(uuid.uuid4()), owner, self.clock(), self.now(), about, about.project_id, idempotency_key=idempotency_key
        )
        self._live[session.session_id] = session
        return session

    def touch(self, session_id: str) -> Session:
        """A sign of life. `GoneError` when the session has ended or belongs to an earlier process."""
        session = self._live.get(session_id)
        if session is None:
            raise GoneError(f"Session {session_id} has ended; create a new ServiceClient.")
        session.last_seen = self.clock()
        return session

    def seen(self, session_id: str) -> None:
        """A sign of life by another request than the heartbeat; sessions that are not live stay so."""
        if (session := self._live.get(session_id)) is not None:
            session.last_seen = self.clock()

    def end(self, session_id: str, finish: Finish) -> bool:
        """Whether there was something to end; the first reason stays."""
        session = self._live.pop(session_id, None)
        if session is None:
            return False
        session.finish = finish
        self._ended[session_id] = session
        if len(self._ended) > KEEP_ENDED:
            del self._ended[next(iter(self._ended))]
        return True

    def expired(self) -> list[str]:
        now = self.clock()
        return [key for key, session in self._live.items() if now - session.last_seen > self.expiry]

    def forgive(self, seconds: float) -> None:
        """Time in which nobody could be heard does not count as silence."""
        for session in self._live.values():
            session.last_seen += seconds

    def live(self) -> set[str]:
        return set(self._live)

    def was_here(self, session_id: str) -> bool:
        """Whether this process has ever had that session."""
        return session_id in self._live or session_id in self._ended

    def get(self, session_id: str) -> Session:
        """A session of this process, live or ended."""
        session = self._live.get(session_id) or self._ended.get(session_id)
        if session is None:
            raise NotFoundError(f"This server has had no session {session_id} since it started.")
        return session

    def check_owner(self, session_id: str, owner: str) -> None:
        """`NotFoundError` for somebody else's session; one that is not known is nobody's."""
        session = self._live.get(session_id) or self._ended.get(session_id)
        if session is not None and session.owner != owner:
            raise NotFoundError(f"There is no session {session_id} of this key on this server.")

    def all(self) -> list[Session]:
        """Every session of this process, newest first."""
        return sorted(
            [*self._ended.values(), *self._live.values()],
            key=lambda session: (session.created_at, session.session_id),
            reverse=True,
        )
