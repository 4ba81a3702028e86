"""How often one caller may ask: token buckets, looked at before anything of a request is read (R-240)."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

MOST_CALLERS = 10_000
"""Buckets that are kept. The one that was used longest ago goes first; it has filled up by then or nearly so."""


@dataclass(frozen=True)
class Rate:
    """What a bucket holds and how fast it fills."""

    per_second: float
    burst: float
    """Requests that may come at once after a rest."""


@dataclass
class _Bucket:
    level: float
    at: float


class Buckets:
    """One bucket for each caller, all of one rate.

    Args:
        rate: Of every bucket.
        now: Seconds from a clock that never goes back.
    """

    def __init__(self, rate: Rate, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._now = now
        self._buckets: OrderedDict[bytes, _Bucket] = OrderedDict()

    def take(self, caller: str) -> int | None:
        """Take one request out of a caller's bucket.

        Returns:
            None when it may pass; else the whole seconds, at least 1, after which one would.
        """
        now = self._now()
        # Hashed, so that no secret is kept and no key is long.
        key = sha256(caller.encode("utf-8", "surrogateescape")).digest()
        bucket = self._buckets.setdefault(key, _Bucket(self._rate.burst, now))
        self._buckets.move_to_end(key)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        bucket.level = min(self._rate.burst, bucket.level + (now - bucket.at) * self._rate.per_second)
        bucket.at = now
        if bucket.level >= 1:
            bucket.level -= 1
            return None
        return max(1, math.ceil((1 - bucket.level) / self._rate.per_second))

    def __len__(self) -> int:
        return len(self._buckets)
