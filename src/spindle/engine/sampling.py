"""The sampling batches that run, one per base model, and who waits for what in them."""

import itertools
import logging
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from spindle.backends.contract import Backend, SampleBatch, UserError
from spindle.engine.linger import PendingSample

logger = logging.getLogger(__name__)


class SamplingLane:
    """Steps the batches in turns. The compute thread's own; other threads may cancel and fail the futures in it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._batches: dict[str, SampleBatch] = {}
        self._turns: deque[str] = deque()
        """Base models whose batches run; the next in turn is first."""
        self._keys = itertools.count()
        self._running: dict[int, tuple[str, Future[Any]]] = {}
        self._cancelled: deque[int] = deque()

    @property
    def active(self) -> bool:
        return bool(self._running)

    def add(self, pending: PendingSample) -> None:
        """Let a request join the batch of its base model."""
        name, future, key = pending.request.base_model, pending.future, next(self._keys)
        try:
            batch = self._batches.get(name) or self._backend.sampling(name)
            batch.add(key, pending.request)
        except Exception as error:
            fail(future, error)
            return
        self._batches[name] = batch
        self._running[key] = name, future
        if name not in self._turns:
            self._turns.append(name)
        future.add_done_callback(lambda future: self._cancelled.append(key) if future.cancelled() else None)

    def step(self) -> None:
        """One more token for every sample of one base model."""
        self._drop_cancelled()
        if not self._turns:
            return
        name = self._turns[0]
        try:
            for key, value in self._batches[name].step():
                deliver(self._running.pop(key)[1], value)
        except Exception as error:
            self._fail_batch(name, error)
        self._turns.popleft()
        if any(base == name for base, _ in self._running.values()):
            self._turns.append(name)

    def futures(self) -> list[Future[Any]]:
        """Everything that is being waited for; from any thread."""
        return [future for _, future in list(self._running.values())]

    def _drop_cancelled(self) -> None:
        while self._cancelled:
            key = self._cancelled.popleft()
            if key in self._running:
                name, _ = self._running.pop(key)
                self._batches[name].cancel(key)

    def _fail_batch(self, name: str, error: Exception) -> None:
        """A step that raises has lost its whole batch; the next request starts a new one."""
        del self._batches[name]
        for key in [key for key, (base, _) in self._running.items() if base == name]:
            fail(self._running.pop(key)[1], error)


def deliver(future: Future[Any], value: Any) -> None:
    """Settle a future, which an exception fails; one that was cancelled or failed meanwhile stays so."""
    if isinstance(value, Exception):
        fail(future, value)
        return
    with suppress(InvalidStateError):
        future.set_result(value)


def fail(future: Future[Any], error: Exception) -> None:
    """The same with an error; what is not the caller's mistake goes to the log too."""
    if not isinstance(error, UserError):
        logger.error("A command failed", exc_info=error)
    with suppress(InvalidStateError):
        future.set_exception(error)
