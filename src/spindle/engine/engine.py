"""One compute thread that owns the backend, and takes turns between training and sampling.

Sampling goes on step by step for as long as nobody else waits. While training waits, it gets a slice as long as the
training turn before it, so that both advance alike whatever their commands cost.

Callers hand in a command and get a `concurrent.futures.Future` at once. A future ends with the command's result, with
the backend's `UserError`, or with whatever else went wrong; nothing that goes wrong stops the thread.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from spindle.backends.contract import Backend, ForwardBackward, SampleRequest, SampleResult, UserError
from spindle.engine.commands import Command, Ticket, Work
from spindle.engine.linger import SampleQueue
from spindle.engine.ordering import OrderedQueue
from spindle.engine.sampling import SamplingLane, deliver, fail
from spindle.engine.timing import Timing

logger = logging.getLogger(__name__)

Turn = Callable[[], None]

STOPPED = "Spindle is shutting down; continue from the last checkpoint when it is back."


class Engine:
    """Runs commands of many models on one backend: per model in `seq_id` order, across models in fair turns."""

    def __init__(
        self, backend: Backend, timing: Timing | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._backend = backend
        self._timing = timing or Timing()
        self._clock = clock
        self._wake = threading.Condition()
        self._queues: dict[str, OrderedQueue[Ticket]] = {}
        self._samples = SampleQueue(self._timing)
        self._lane = SamplingLane(backend)
        self._chores: deque[Turn] = deque()
        self._sampled_last = False
        self._sampling_share = self._timing.sample_slice
        """Seconds of sampling that training waits for at most."""
        self._stopping = False
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spindle-persist")
        self._thread = threading.Thread(target=self._run, name="spindle-compute", daemon=True)
        self._thread.start()

    def open(self, model_id: str, create: Work) -> Future[Any]:
        """Start a model's queue; `create` is its command number 0."""
        with self._wake:
            if model_id in self._queues:
                return _failed(UserError(f"Training run {model_id} exists already."))
            self._queues[model_id] = OrderedQueue(clock_started=self._clock())
        return self.submit(model_id, 0, create)

    def submit(self, model_id: str, sequence_id: int, command: Command) -> Future[Any]:
        """Queue a command of an open model. Commands run by ascending id; an id runs once."""
        ticket = Ticket(command)
        with self._wake:
            if self._stopping:
                return _failed(UserError(STOPPED))
            queue = self._queues.get(model_id)
            if queue is None:
                return _failed(UserError(f"Training run {model_id} is not open on this server."))
            if not queue.put(sequence_id, ticket, self._clock()):
                return _failed(
                    UserError(
                        f"Request {sequence_id} of training run {model_id} had its turn already: "
                        "it was executed, or given up because it was missing for too long."
                    )
                )
            ticket.future.set_running_or_notify_cancel()  # from here on nobody can cancel it: order is a promise
            self._wake.notify()
        return ticket.future

    def sample(self, request: SampleRequest) -> Future[SampleResult]:
        """Queue a sampling request; it joins the running batch at the next step, or starts one with others that arrive
        about now. The future can be cancelled until it is done."""
        with self._wake:
            if self._stopping:
                return _failed(UserError(STOPPED))
            future = self._samples.put(request, self._clock())
            self._wake.notify()
        return future

    def next_id(self, model_id: str) -> int | None:
        """The id whose turn is next; None for a model that is not open."""
        with self._wake:
            queue = self._queues.get(model_id)
            return None if queue is None else queue.next_id

    def close(self, model_id: str, reason: str) -> None:
        """End a model: fail what is queued with `reason`, then free its memory. Unknown ids are fine."""
        with self._wake:
            queue = self._queues.pop(model_id, None)
            if queue is None:
                return
            dropped = queue.skip()
            self._chores.append(_logged(lambda: self._backend.unload_model(model_id)))
            self._wake.notify()
        _fail_all((ticket.future for ticket in dropped), UserError(reason))

    def later(self, chore: Turn) -> None:
        """Run something slow but unimportant on the disk lane; at shutdown it is left out."""
        with suppress(RuntimeError):
            self._disk.submit(_logged(chore))

    def fail_gaps(self) -> None:
        """Fail what waits behind a request that never arrived, so that nobody waits for ever. Call it regularly."""
        gaps = []
        with self._wake:
            now = self._clock()
            for model_id, queue in self._queues.items():
                limit = self._timing.gap_after_refusal if now < queue.hurried_until else self._timing.gap
                if queue.overdue(now, limit):
                    gaps.append((model_id, limit, queue.next_id, queue.skip()))
        for model_id, limit, missing, dropped in gaps:
            error = UserError(
                f"Request {missing} of training run {model_id} did not arrive within {limit:g} s, so the "
                f"{len(dropped)} request(s) behind it were not executed; later requests are. "
                "Check the client's log for a rejected submit, or go on from the last checkpoint."
            )
            _fail_all((ticket.future for ticket in dropped), error)

    def hurry(self, model_ids: Iterable[str]) -> None:
        """One of these models lost a request that could not be read: give up soon on what is missing."""
        with self._wake:
            for model_id in model_ids:
                if (queue := self._queues.get(model_id)) is not None:
                    queue.hurried_until = self._clock() + self._timing.gap

    def forgive(self, seconds: float) -> None:
        """Time in which no request could arrive does not count as missing."""
        with self._wake:
            for queue in self._queues.values():
                queue.clock_started += seconds

    def stop(self, grace: float | None = None) -> bool:
        """Let the running command end and fail the rest. False when it runs on after `grace` seconds."""
        with self._wake:
            self._stopping = True
            samples = [pending.future for pending in self._samples.take()]
            self._wake.notify()
        _fail_all([*samples, *self._lane.futures()], UserError(STOPPED))
        self._thread.join(grace)
        self._disk.shutdown(wait=True)
        with self._wake:
            dropped = [ticket.future for queue in self._queues.values() for ticket in queue.skip()]
        dropped += self._lane.futures()  # of requests that were on their way into a batch
        _fail_all(dropped, UserError(STOPPED))
        return not self.running

    @property
    def running(self) -> bool:
        """Whether the compute thread is alive."""
        return self._thread.is_alive()

    # ---- the compute thread

    def _run(self) -> None:
        while (turn := self._next_turn()) is not None:
            turn()

    def _next_turn(self) -> Turn | None:
        with self._wake:
            while not self._stopping:
                due = self._samples.due_in(self._clock())
                may_sample = self._lane.active or due == 0.0
                if self._chores:
                    return self._chores.popleft()
                if may_sample and not self._sampled_last:
                    return self._sample
                if (turn := self._training_turn()) is not None:
                    return turn
                if may_sample:
                    return self._sample
                self._wake.wait(timeout=due)
            return None

    def _training_turn(self) -> Turn | None:
        """The gradient requests of every model that is ready for one, together; else one model's other work."""
        ready = {model_id: ticket for model_id, queue in self._queues.items() if (ticket := queue.ready) is not None}
        if not ready:
            return None
        self._sampled_last = False
        first = next(iter(ready))
        if isinstance(ready[first].command, ForwardBackward):
            chosen = [model_id for model_id, ticket in ready.items() if isinstance(ticket.command, ForwardBackward)]
        else:
            chosen = [first]
        taken = {model_id: self._take(model_id) for model_id in chosen}
        return lambda: self._timed(lambda: self._train(taken))

    def _timed(self, train: Turn) -> None:
        begun = self._clock()
        train()
        self._sampling_share = max(self._timing.sample_slice, self._clock() - begun)

    def _take(self, model_id: str) -> Ticket:
        """Start a model's next command, and put the model last in line for the following turns."""
        queue = self._queues.pop(model_id)
        self._queues[model_id] = queue
        return queue.take()

    def _train(self, taken: dict[str, Ticket]) -> None:
        first_model, first = next(iter(taken.items()))
        if isinstance(first.command, Work):
            self._work(first_model, first.command, first.future)
            return
        requests = [ticket.command for ticket in taken.values() if isinstance(ticket.command, ForwardBackward)]
        self._settle([ticket.future for ticket in taken.values()], lambda: self._gradients(requests))
        for model_id in taken:
            self._finish(model_id)

    def _gradients(self, requests: Sequence[ForwardBackward]) -> Sequence[Any]:
        """The results of one call; where it breaks, which leaves no gradient, of one call for each request.

        What broke the call of several models is one tenant's affair then: a plugin's loss, a batch beyond the memory.
        """
        try:
            return self._backend.forward_backward(requests)
        except Exception:
            if len(requests) == 1:
                raise
        return [self._gradient(request) for request in requests]

    def _gradient(self, request: ForwardBackward) -> Any:
        try:
            (result,) = self._backend.forward_backward([request])
        except Exception as error:
            return error
        return result

    def _work(self, model_id: str, work: Work, future: Future[Any]) -> None:
        if work.persist is None:
            self._settle([future], lambda: [work.run(self._backend)])
            self._finish(model_id)
            return
        persist = work.persist
        try:
            written = work.run(self._backend)
        except Exception as error:
            fail(future, error)
            self._finish(model_id)
            return

        def write() -> None:
            self._settle([future], lambda: [persist(written)])
            self._finish(model_id)

        self._disk.submit(write)

    def _finish(self, model_id: str) -> None:
        with self._wake:
            if (queue := self._queues.get(model_id)) is not None:
                queue.finish(self._clock())
            self._wake.notify()

    def _sample(self) -> None:
        """Step the running samples until they are done, or until sampling has had its share and others wait."""
        self._sampled_last = True
        begun = self._clock()
        while True:
            with self._wake:
                arrived = [] if self._stopping else self._samples.take()
            for pending in arrived:
                if not pending.future.cancelled():
                    self._lane.add(pending)
            self._lane.step()
            if not self._lane.active or self._yields(self._clock() - begun):
                return

    def _yields(self, sampled: float) -> bool:
        """Whether sampling ends its turn after `sampled` seconds."""
        with self._wake:
            if self._stopping or self._chores:
                return True
            waiting = any(queue.ready is not None for queue in self._queues.values())
            return waiting and sampled >= self._sampling_share

    def _settle(self, futures: Sequence[Future[Any]], compute: Callable[[], Sequence[Any]]) -> None:
        """Give each future its value of `compute()`; an exception among them fails one, an exception of it all."""
        try:
            settled = list(zip(futures, compute(), strict=True))
        except Exception as error:
            _fail_all(futures, error)
            return
        for future, value in settled:
            deliver(future, value)


def _logged(chore: Turn) -> Turn:
    """A chore nobody waits for: its failure goes to the log."""

    def run() -> None:
        try:
            chore()
        except Exception:
            logger.exception("A chore failed")

    return run


def _failed(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def _fail_all(futures: Iterable[Future[Any]], error: Exception) -> None:
    for future in futures:
        fail(future, error)
