"""Sampling requests gather for a moment, so that those of one training step start together."""

from concurrent.futures import Future
from dataclasses import dataclass, field

from spindle.backends.contract import SampleRequest, SampleResult
from spindle.engine.timing import Timing


@dataclass(frozen=True)
class PendingSample:
    request: SampleRequest
    arrived: float
    future: Future[SampleResult] = field(default_factory=Future)


@dataclass
class SampleQueue:
    """Sampling requests that have not joined a batch, oldest first."""

    timing: Timing
    _waiting: list[PendingSample] = field(default_factory=list)

    def put(self, request: SampleRequest, now: float) -> Future[SampleResult]:
        pending = PendingSample(request, now)
        self._waiting.append(pending)
        return pending.future

    def due_in(self, now: float) -> float | None:
        """Seconds until an idle batch should start; 0 when it should start now, None when nothing waits."""
        if not self._waiting:
            return None
        if sum(pending.request.num_samples for pending in self._waiting) >= self.timing.sample_sequences:
            return 0.0
        quiet = self._waiting[-1].arrived + self.timing.sample_quiet
        linger = self._waiting[0].arrived + self.timing.sample_linger
        return max(0.0, min(quiet, linger) - now)

    def take(self) -> list[PendingSample]:
        """Everything that waits; how many samples run at once is the backend's business."""
        waiting, self._waiting = self._waiting, []
        return waiting
