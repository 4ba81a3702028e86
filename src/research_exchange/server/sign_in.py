"""Signing in with a browser: a token is exchanged for a cookie, and forms carry a proof that a page of ours made them.

What a cookie stands for is kept in this process alone, under the cookie's SHA-256; the token itself is not kept, its id
is, so a revoked token ends its sessions at once. A restart of the server signs everybody out.
"""

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from threading import Lock
from urllib.parse import urlsplit

from fastapi import Response

from research_exchange.server.access import Caller, same_secret
from research_exchange.store import Clock

COOKIE = "rx_session"
SIGNED_IN_FOR = timedelta(hours=12)
MOST_SESSIONS = 5_000
"""Of all people together; the oldest is signed out for the next."""


@dataclass(frozen=True)
class Session:
    """A browser that is signed in."""

    caller: Caller
    csrf: str
    """Every form of this browser carries it (the field `csrf`)."""
    until: datetime


@dataclass(frozen=True)
class NewSession:
    cookie: str
    session: Session


class SignIns:
    """The browsers that are signed in. Safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = Lock()

    def begin(self, caller: Caller) -> NewSession:
        """Sign in whoever showed a good token."""
        cookie = secrets.token_urlsafe(32)
        session = Session(caller, secrets.token_urlsafe(32), self._clock() + SIGNED_IN_FOR)
        with self._lock:
            self._sessions[_digest(cookie)] = session
            if len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return NewSession(cookie, session)

    def session(self, cookie: str) -> Session | None:
        """The session of a cookie, while it lasts."""
        with self._lock:
            session = self._sessions.get(_digest(cookie))
        return session if session is not None and self._clock() < session.until else None

    def end(self, cookie: str) -> None:
        with self._lock:
            self._sessions.pop(_digest(cookie), None)


def set_cookie(response: Response, new: NewSession) -> None:
    """Give a browser its cookie: no script reads it, no other site sends it, nothing carries it in the clear.

    Browsers take loopback for a secure place, so it works at http://localhost too.
    """
    lasts = int(SIGNED_IN_FOR.total_seconds())
    response.set_cookie(COOKIE, new.cookie, max_age=lasts, path="/", secure=True, httponly=True, samesite="strict")


def clear_cookie(response: Response) -> None:
    response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")


def is_own_form(headers: Mapping[str, str]) -> bool:
    """Whether a form was sent by a page of this very origin, as far as the browser says.

    Our pages tell nobody where they link from, so their forms come with an origin of `null`; what a browser says of the
    site that a request comes from, no page can change.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def proves(session: Session, csrf: str) -> bool:
    """Whether a form carries the proof of the browser's own session."""
    return same_secret(csrf, session.csrf)


def safe_next(path: str) -> str:
    """Where to go after signing in: a path of this Exchange, or the front page."""
    is_path = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_path and path.isprintable() and "\\" not in path else "/"


def _digest(cookie: str) -> str:
    return sha256(cookie.encode("utf-8", "surrogateescape")).hexdigest()
