"""Tells those who watch a run that something happened to it, so that they look at once and not only now and then."""

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
        self._listening: dict[asyncio.Event, tuple[str, asyncio.AbstractEventLoop]] = {}
        self._lock = Lock()
        self.is_closed = False
        """Set when the server stops: nobody shall go on listening."""

    def ring(self, run_id: str) -> None:
        with self._lock:
            rung = [(loop, event) for event, (run, loop) in self._listening.items() if run == run_id]
        for loop, event in rung:
            loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        self.is_closed = True
        with self._lock:
            runs = {run for run, _ in self._listening.values()}
        for run in runs:
            self.ring(run)

    @contextmanager
    def listening(self, run_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever something happens to a run.

        Raises:
            TooManyWatchers: when as many listen as may.
        """
        event = asyncio.Event()
        with self._lock:
            if len(self._listening) >= MAX_WATCHERS:
                raise TooManyWatchers
            self._listening[event] = (run_id, asyncio.get_running_loop())
        try:
            yield event
        finally:
            with self._lock:
                del self._listening[event]


class BellRinger:
    """ASGI middleware: whatever is posted to a run may have changed it."""

    _POSTED_TO = re.compile(r"/api/runs/(run_[0-9a-f]{10})/")

    def __init__(self, app: ASGIApp, bell: Bell) -> None:
        self._app = app
        self._bell = bell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "POST":
            posted = self._POSTED_TO.match(scope["path"])
            if posted is not None:
                self._bell.ring(posted[1])
