"""A clock for a service that has no capacity: the stock SDK asks again for ever, a run may not (R-201).

    with tinker.ServiceClient() as service, capacity_clock(run, service) as capacity:
        learner = capacity.ask(lambda: service.create_lora_training_client(model).result())
        for batch in batches:
            ...
            capacity.step()  # one step of the comparison is done

While the block runs, every refusal that the SDK receives is seen, also those that it keeps to itself. Where refusals go
on for too long (10 minutes before the first step of the comparison, 30 minutes after it), the clients are released, the
run is finished with a `capacity_block`, and the block is left with `CapacityExhausted`, which ends the script. The
Exchange may then start the run again (R-202).
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from tinker import APIStatusError, ServiceClient, TinkerError

from research_exchange.capacity import Patience, Refusals, is_refusal
from research_exchange.client import ExchangeError, Run

__all__ = ["CapacityClock", "CapacityExhausted", "capacity_clock"]

USUAL = Patience()
"""Of the contract: 10 and 30 minutes."""
_RELEASE_SECONDS = 30.0
"""How long a full service gets to take its clients back."""
_LOOK_SECONDS = 1.0
_NO_WORK = ("/telemetry", "/session_heartbeat")
"""Requests that need no capacity."""
_HTTP_LOG = logging.getLogger("httpx")

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


class CapacityExhausted(SystemExit):
    """The service has refused for too long, and the run is finished. Uncaught, it ends the script in one sentence."""


class CapacityClock:
    """Counts the steps of a comparison and how long the service has been refusing; `capacity_clock` makes one."""

    def __init__(self, run: Run, patience: Patience) -> None:
        self.steps = 0
        """Of the comparison, completed."""
        self.is_exhausted = False
        """Whether the service has refused for longer than a run may ask."""
        self._run = run
        self._patience = patience
        self._refusals = Refusals(patience)
        self._refused_requests: set[str] = set()
        self._told = 0
        self._lock = threading.Lock()

    @property
    def error(self) -> str:
        """The last refusal."""
        return self._refusals.error

    def step(self) -> None:
        """One step of the comparison is done, so there is capacity."""
        self.steps += 1
        self.accepted()

    def ask(self, call: Callable[[], Answer]) -> Answer:
        """The answer of `call`, which is made again after 1, 2 and 4 minutes while the service refuses it.

        Raises:
            CapacityExhausted: it was refused for too long.
        """
        attempts = 0
        while True:
            try:
                answer = call()
            except TinkerError as error:
                if not is_refusal(_status(error), str(error)):
                    raise
                self.refused(str(error))
                attempts += 1
                self._wait(self._patience.pause(attempts))
            else:
                self.accepted()
                return answer

    def refused(self, error: str, request: str = "") -> None:
        """Note that the service refused, and which request."""
        with self._lock:
            self._refusals.refused(time.monotonic(), error)
            self._refused_requests.add(request)

    def accepted(self, request: str | None = None) -> None:
        """Note that the service took on work: any, or a request that counts if it was among those refused."""
        with self._lock:
            if request is None or request in self._refused_requests:
                self._refusals.over()
                self._refused_requests.clear()

    def look(self) -> None:
        """Tell the run about refusals that go on, and note when they have gone on for too long."""
        with self._lock:
            lasted = self._refusals.lasted(time.monotonic())
        pauses = self._patience.pauses
        if lasted > self._patience.limit(self.steps):
            self.is_exhausted = True
        elif lasted == 0:
            self._told = 0
        elif self._told < len(pauses) and lasted >= sum(pauses[: self._told + 1]):
            self._told += 1
            self._tell(f"The training service has had no capacity for {lasted:.0f} s; it is asked again.")

    def _tell(self, sentence: str) -> None:
        """An Exchange that is away as well must not stop the clock."""
        try:
            self._run.update(summary=sentence)
        except ExchangeError as error:
            log.warning("%s", error)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.is_exhausted:
                raise CapacityExhausted
            time.sleep(min(_LOOK_SECONDS, seconds))


@contextmanager
def capacity_clock(run: Run, service: ServiceClient, *, patience: Patience = USUAL) -> Iterator[CapacityClock]:
    """Watch, while the block runs, how long the service of TINKER_BASE_URL refuses; in the main thread of a script.

    Raises:
        CapacityExhausted: it refused for too long. The clients are released and the run is finished.
    """
    watched = CapacityClock(run, patience)
    try:
        with _listening(watched), _interrupting(watched):
            yield watched
    except CapacityExhausted:
        raise _finish(run, service, watched) from None
    except TinkerError as error:
        if not is_refusal(_status(error), str(error)):
            raise
        watched.refused(str(error))
        raise _finish(run, service, watched) from error


def _finish(run: Run, service: ServiceClient, watched: CapacityClock) -> CapacityExhausted:
    """Release what is held and say so, as R-201 asks."""
    released = _release(service)
    sentence = f"The training service had no capacity for too long ({watched.error})."
    run.finish(
        status="failed",
        outcome_reason="incomplete_execution",
        summary=f"{sentence} {watched.steps} steps of the comparison were done.",
        capacity_block={
            "error": watched.error,
            "comparison_steps_completed": watched.steps,
            "released_clients": released,
        },
    )
    return CapacityExhausted(sentence)


def _release(service: ServiceClient) -> bool:
    """Whether the service has taken its session back; a full one may refuse even that."""
    try:
        service.close("errored", "no capacity").result(_RELEASE_SECONDS)
    except (TinkerError, TimeoutError, RuntimeError) as error:
        log.warning("The clients could not be released: %s", error)
        return False
    return True


@contextmanager
def _listening(watched: CapacityClock) -> Iterator[None]:
    """Reads the answers of the service off the log that httpx keeps of every request, without printing more of it."""
    address = os.environ.get("TINKER_BASE_URL", "").rstrip("/")
    shown = _HTTP_LOG.getEffectiveLevel()

    def read(record: logging.LogRecord) -> bool:
        match record.args:
            case (str(method), url, _, int(status), *_) if str(url).startswith(address):
                request = f"{method} {str(url).removeprefix(address)}"
                if request.endswith(_NO_WORK):
                    pass
                elif is_refusal(status):
                    watched.refused(f"HTTP {status} for {request}", request)
                elif status < 300:
                    watched.accepted(request)
        return record.levelno >= shown

    level = _HTTP_LOG.level
    _HTTP_LOG.addFilter(read)
    _HTTP_LOG.setLevel(min(shown, logging.INFO))
    try:
        yield
    finally:
        _HTTP_LOG.setLevel(level)
        _HTTP_LOG.removeFilter(read)


@contextmanager
def _interrupting(watched: CapacityClock) -> Iterator[None]:
    """Interrupts whatever the main thread waits for once the patience is over: the SDK would never return."""
    over = threading.Event()
    thread = threading.get_ident()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not over.is_set():
            raise CapacityExhausted

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            watched.look()
            if watched.is_exhausted:
                signal.pthread_kill(thread, signal.SIGUSR1)
                return

    before = signal.signal(signal.SIGUSR1, interrupt)
    watcher = threading.Thread(target=watch, name="capacity-clock", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGUSR1, before)


def _status(error: TinkerError) -> int | None:
    return error.status_code if isinstance(error, APIStatusError) else None
