"""How far a training loop is, how fast it goes and when it will be done."""

import time
from collections.abc import Callable
from typing import Any

from research_exchange.client import Run


class Progress:
    """Reports each step as metrics of the run, which is what `rx run` and the run's page show live."""

    def __init__(
        self,
        run: Run,
        *,
        steps: int,
        done: int = 0,
        seconds_after: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            steps: Of the whole training.
            done: Steps that an earlier session took.
            seconds_after: What is still to do after the last step, such as an evaluation, as measured before.
        """
        self._clock = clock
        self._run = run
        self._steps = steps
        self._done = done
        self._seconds_after = seconds_after
        self._started = self._last = clock()
        self.rows: list[dict[str, Any]] = []
        """The metrics of every step of this session, for the evidence."""

    def step(self, *, tokens: int, **metrics: float) -> None:
        """Report that the next step is done; it processed `tokens` tokens of prompts and completions."""
        now, taken = self._clock(), len(self.rows) + 1
        step = self._done + taken
        seconds_per_step = (now - self._started) / taken
        row = {
            "step": step,
            "steps": self._steps,
            **metrics,
            "tokens_per_second": tokens / max(now - self._last, 1e-9),
            "seconds_left": seconds_per_step * (self._steps - step) + self._seconds_after,
        }
        self._last = now
        self.rows.append(row)
        self._run.metric(**row)
