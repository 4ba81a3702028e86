"""How much a server takes on, and what it says when it is full."""

import threading
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from spindle.control.errors import BusyError

SOON = 1.0
"""Seconds after which room in a queue is worth another look."""
LATER = 5.0
"""The same where something must end first."""


@dataclass(frozen=True)
class Limits:
    """The most of each thing at one time."""

    models: int = 64
    """Live training runs, of all sessions together."""
    queued_sequences: int = 8192
    """Samples that were asked for and have not ended."""
    queued_tokens: int = 16_777_216
    """Tokens of training data and prompts that wait or are being computed."""
    sessions: int = 1024
    """Live sessions."""
    checkpoint_bytes: int | None = None
    """Bytes of all named checkpoints on the disk; None for as much as there is."""
    body_bytes: int = 268_435_456
    """Bytes of one request, after decompression. Clients split batches at about 5 MB; one long datum may be larger."""


@dataclass
class Gauge:
    """How much of one thing waits or runs, held against its limit."""

    limit: str
    """The limit's name in the configuration."""
    unit: str
    most: int
    _held: Counter[str] = field(default_factory=Counter)
    """By holder."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, amount: int) -> None:
        """Raises `BusyError` when that much more is too much. A request that is alone is never too large."""
        with self._lock:
            held = self._held.total()
        if held and held + amount > self.most:
            raise BusyError(
                f"The server's limit {self.limit} is reached: {held} {self.unit} wait or run already, "
                f"{amount} more would exceed {self.most}; the client tries again by itself.",
                self.limit,
                SOON,
            )

    def hold(self, amount: int, until: "Future[Any]", holder: str) -> None:
        """Count that much until a future is done, whichever thread ends it."""
        with self._lock:
            self._held[holder] += amount
        until.add_done_callback(lambda _: self._release(amount, holder))

    def held_by(self, holder: str) -> int:
        with self._lock:
            return self._held.get(holder, 0)

    def _release(self, amount: int, holder: str) -> None:
        with self._lock:
            self._held[holder] -= amount
            if not self._held[holder]:
                del self._held[holder]
