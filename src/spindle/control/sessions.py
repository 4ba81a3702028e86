"""Client sessions: alive while their heartbeats come, and owners of models and sampling sessions."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from spindle.control.errors import GoneError

EXPIRY = 300.0
"""Seconds without a sign of life after which a session ends; clients beat every 10 s and warn after 120 s."""


@dataclass
class Session:
    session_id: str
    last_seen: float
    idempotency_key: str | None = None


@dataclass
class Sessions:
    """The sessions of this process."""

    clock: Callable[[], float] = time.monotonic
    expiry: float = EXPIRY
    _live: dict[str, Session] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    def create(self, idempotency_key: str | None = None) -> Session:
        """A new session; a retry with the same idempotency key gets the one it made before."""
        for session in self._live.values():
            if idempotency_key is not None and session.idempotency_key == idempotency_key:
                return session
        session = Session(str(uuid.uuid4()), self.clock(), idempotency_key)
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

    def end(self, session_id: str) -> bool:
        """Whether there was something to end."""
        if self._live.pop(session_id, None) is None:
            return False
        self._ended.add(session_id)
        return True

    def expired(self) -> list[str]:
        now = self.clock()
        return [key for key, session in self._live.items() if now - session.last_seen > self.expiry]

    def live(self) -> set[str]:
        return set(self._live)

    def was_here(self, session_id: str) -> bool:
        """Whether this process has ever had that session."""
        return session_id in self._live or session_id in self._ended
