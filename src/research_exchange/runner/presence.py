"""A runner's sign of life: without one for two minutes, the Exchange counts what is finished as a partial result."""

import threading
import time
from types import TracebackType
from typing import Self

from research_exchange.client import ExchangeError, Run

__all__ = ["BEAT_SECONDS", "Presence"]

BEAT_SECONDS = 15.0


class Presence:
    """Says in the background that a session goes on, while the `with` block runs, and hears when it is cancelled."""

    def __init__(self, run: Run, session: str, *, asks_for_end: bool = False) -> None:
        """`asks_for_end`: whether `over_seconds` is wanted."""
        self._run = run
        self._session = session
        self._asks_for_end = asks_for_end
        self._ended: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"presence-{session}", daemon=True)
        self.cancelled: str | None = None
        """Why somebody cancelled the run, once somebody has."""

    @property
    def over_seconds(self) -> float:
        """How long ago the run's final update was seen; 0 before it was."""
        return 0.0 if self._ended is None else time.monotonic() - self._ended

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while True:
            try:
                answer = self._run.beat(self._session)
                if self._asks_for_end and self._ended is None and self._run.record()["state"]["final_update"]:
                    self._ended = time.monotonic()
            except ExchangeError:
                pass  # it is away, or too old to listen; the next beat tells
            else:
                if answer.get("cancelled"):
                    self.cancelled = str(answer.get("reason") or "no reason was given")
            if self._over.wait(BEAT_SECONDS):
                return
