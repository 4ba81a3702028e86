"""Notices that the process itself stood still, so that a silence in which nothing could be heard is nobody's fault."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

USUAL = 10.0
"""Seconds between two looks that are nothing special on a busy machine."""


@dataclass
class Pauses:
    """Measures the time for which the process was stopped, suspended with the machine, or held up."""

    clock: Callable[[], float] = time.monotonic
    _looked: float | None = field(default=None)

    def since_last_look(self) -> float:
        """Seconds beyond the usual since the previous call; 0 nearly always. To be called every few seconds."""
        now, before = self.clock(), self._looked
        self._looked = now
        return 0.0 if before is None or now - before <= USUAL else now - before
