"""Promises: every submit is answered with one at once, and asking again with the same ids gives the same one."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from spindle.backends.contract import UserError
from spindle.control.results import Cells, Result

KEEP_FETCHED = 600.0
"""Seconds a fetched result is kept, because the reply may have been lost on its way."""


class Category(StrEnum):
    """Whose mistake a failure is, in the words of the wire."""

    USER = "user"
    SERVER = "server"


@dataclass(frozen=True)
class Failure:
    """A promise that ended without a result."""

    error: str
    category: Category


@dataclass
class Promise:
    """A result to come."""

    request_id: str
    session_id: str
    future: Future[Any]
    cells: Cells | None = None
    """Where in the matrix of its target logprobs a sampling request asked for something; None for everywhere."""
    fetched_at: float | None = None

    async def outcome(self, timeout: float) -> Result | Failure | None:
        """The result or failure, waited for at most `timeout` seconds; None when it is not there yet."""
        if not self.future.done():
            loop, done = asyncio.get_running_loop(), asyncio.Event()
            self.future.add_done_callback(lambda _: _wake(loop, done))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), timeout)
        return _outcome_of(self.future) if self.future.done() else None


def _wake(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the server has stopped: nobody waits any more
        loop.call_soon_threadsafe(done.set)


def _outcome_of(future: Future[Any]) -> Result | Failure:
    try:
        result: Result = future.result()
    except UserError as error:
        return Failure(str(error), Category.USER)
    except LostError as error:
        return Failure(str(error), Category.SERVER)
    except CancelledError:
        return Failure("The request was cancelled by its client, or with its session.", Category.USER)
    except Exception as error:
        return Failure(
            f"Spindle failed at this request ({type(error).__name__}: {error}); its log has the details.",
            Category.SERVER,
        )
    return result


class LostError(Exception):
    """What the request refers to was lost by the server (a restart), which is nobody's mistake."""


def failed(error: Exception) -> Future[Any]:
    """A future that has failed already."""
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def done(result: Result) -> Future[Any]:
    """A future that has ended well already."""
    future: Future[Any] = Future()
    future.set_result(result)
    return future


@dataclass
class PromiseBook:
    """All promises of this process, by request id."""

    clock: Callable[[], float] = time.monotonic
    _promises: dict[str, Promise] = field(default_factory=dict)

    def make(
        self, request_id: str, session_id: str, start: Callable[[], Future[Any]], cells: Cells | None = None
    ) -> Promise:
        """The promise of that id; `start` runs only if there is none yet, and a `UserError` of it fails the promise.

        A `BusyError` of it leaves no promise behind: the same request may come again.
        """
        promise = self._promises.get(request_id)
        if promise is None:
            promise = Promise(request_id, session_id, _started(start), cells)
            self._promises[request_id] = promise
        return promise

    def get(self, request_id: str) -> Promise | None:
        return self._promises.get(request_id)

    def fetched(self, request_id: str) -> None:
        """The result went out; it is kept for a while."""
        if (promise := self._promises.get(request_id)) is not None:
            promise.fetched_at = self.clock()

    def cancel(self, request_id: str) -> None:
        """Stop a sampling request, which nobody asks about any more; anything else goes on.

        What has ended already is kept as if it had been fetched.
        """
        promise = self._promises.get(request_id)
        if promise is not None and (promise.future.cancel() or promise.future.done()):
            self.fetched(request_id)

    def abandon(self, session_id: str) -> None:
        """Stop the sampling requests of a session that ended; its training commands end with their models."""
        for promise in list(self._promises.values()):
            if promise.session_id == session_id:
                promise.future.cancel()

    def forget(self, request_id: str) -> None:
        """The client has the result; one that is still to come is kept."""
        promise = self._promises.get(request_id)
        if promise is not None and promise.future.done():
            del self._promises[request_id]

    def tidy(self, live_sessions: set[str]) -> None:
        """Drop fetched results after a while, and those of ended sessions too."""
        now = self.clock()
        for promise in list(self._promises.values()):
            if promise.future.done() and promise.fetched_at is None and promise.session_id not in live_sessions:
                promise.fetched_at = now
            if promise.fetched_at is not None and now - promise.fetched_at > KEEP_FETCHED:
                del self._promises[promise.request_id]


def _started(start: Callable[[], Future[Any]]) -> Future[Any]:
    try:
        return start()
    except (UserError, LostError) as error:
        return failed(error)
