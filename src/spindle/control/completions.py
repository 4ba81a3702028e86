"""What ended of one sampling client's requests, so that it can wait for all of them at once."""

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

CLONE = 1_000_000_000
"""Request ids from one client of a sampling session to the next."""
KEPT = 65_536
"""Ended requests that are remembered for a client that does not ask; more never run at a time."""


@dataclass(frozen=True)
class Completion:
    cursor: int
    request_id: str
    failed: bool


@dataclass
class Completions:
    """The ended requests of one client, in the order in which they ended. May be told by any thread."""

    _ended: deque[Completion] = field(default_factory=lambda: deque(maxlen=KEPT))
    _cursor: int = 0
    _waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def follow(self, request_id: str, future: "Future[Any]") -> None:
        """Remember when a request ends."""
        future.add_done_callback(lambda ended: self._note(request_id, ended))

    async def after(self, cursor: int, timeout: float) -> list[Completion]:
        """What ended later than `cursor`, waited for at most `timeout` seconds; the earlier ones are forgotten."""
        wake = asyncio.Event()
        with self._lock:
            while self._ended and self._ended[0].cursor <= cursor:
                self._ended.popleft()
            if self._ended or timeout <= 0:
                return list(self._ended)
            self._waiting[wake] = asyncio.get_running_loop()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), timeout)
        finally:
            with self._lock:
                del self._waiting[wake]
        with self._lock:
            return [completion for completion in self._ended if completion.cursor > cursor]

    def _note(self, request_id: str, ended: "Future[Any]") -> None:
        failed = ended.cancelled() or ended.exception() is not None
        with self._lock:
            self._cursor += 1
            self._ended.append(Completion(self._cursor, request_id, failed))
            for wake, loop in self._waiting.items():
                with suppress(RuntimeError):  # the server has stopped: nobody waits any more
                    loop.call_soon_threadsafe(wake.set)
