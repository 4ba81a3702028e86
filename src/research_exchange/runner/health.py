"""Whether the training service of a run still answers."""

import threading
import time
from types import TracebackType
from typing import Self

from research_exchange.runner.services import training_answers

__all__ = ["HEALTH_SECONDS", "HealthWatch"]

HEALTH_SECONDS = 5.0


class HealthWatch:
    """Asks a training service for its health in the background while the `with` block runs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._answered = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    @property
    def silent_seconds(self) -> float:
        """Since its last answer."""
        return time.monotonic() - self._answered

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._stop.wait(HEALTH_SECONDS):
            if training_answers(self._url, timeout=HEALTH_SECONDS):
                self._answered = time.monotonic()
