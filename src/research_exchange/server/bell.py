"""Tells those who watch a run that something happened to it, so that nobody has to ask the store again and again."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from starlette.types import ASGIApp, Receive, Scope, Send

MAX_WATCHERS = 256
"""At a time, over all runs."""


class TooManyWatchers(Exception):
    """There is no room for another one."""


class Bell:
    """Rung from any thread, heard in the event loop of whoever listens."""

    def __init__(self) -> None:
        self._listening: dict[asyncio.Event, tuple[frozenset[str], asyncio.AbstractEventLoop]] = {}
        self._lock = Lock()
        self.is_closed = False
        """Set when the server stops: nobody shall go on listening."""

    def names(self) -> frozenset[str]:
        """Everything that anybody listens for."""
        with self._lock:
            return frozenset().union(*(names for names, _ in self._listening.values()))

    def ring(self, name: str) -> None:
        """Tell those who listen for a run, or for a token, that something happened to it."""
        with self._lock:
            rung = [(loop, event) for event, (names, loop) in self._listening.items() if name in names]
        for loop, event in rung:
            loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        self.is_closed = True
        for name in self.names():
            self.ring(name)

    @contextmanager
    def listening(self, *names: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever something happens to one of these: a run, and the token of who watches it.

        Raises:
            TooManyWatchers: when as many listen as may.
        """
        event = asyncio.Event()
        with self._lock:
            if len(self._listening) >= MAX_WATCHERS:
                raise TooManyWatchers
            self._listening[event] = (frozenset(names), asyncio.get_running_loop())
        try:
            yield event
        finally:
            with self._lock:
                del self._listening[event]


class BellRinger:
    """ASGI middleware: whatever is posted to a run, but for a sign of life, may have changed it."""

    _POSTED_TO = re.compile(r"/api/runs/(run_[0-9a-f]{10})/(?!sessions/[^/]*/beat$)")

    def __init__(self, app: ASGIApp, bell: Bell) -> None:
        self._app = app
        self._bell = bell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "POST":
            posted = self._POSTED_TO.match(scope["path"])
            if posted is not None:
                self._bell.ring(posted[1])
