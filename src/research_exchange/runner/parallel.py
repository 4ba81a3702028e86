"""Several sittings at once, each in a thread of its own; whatever ends this process ends them all in good order."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

__all__ = ["Crew", "all_at_once"]

_LOOK_SECONDS = 0.2


class Crew:
    """At most so many jobs at once.

    Each says by an event of its own that it has ended. Threads are not asked: where Ctrl-C interrupts a `join`, Python
    3.11 takes the thread for ended while it goes on.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._at_work: list[threading.Event] = []
        """The ends of jobs that were not over when last looked at."""
        self._troubles: list[BaseException] = []

    @property
    def has_room(self) -> bool:
        self._at_work = [end for end in self._at_work if not end.is_set()]
        return len(self._at_work) < self._size

    @property
    def is_idle(self) -> bool:
        return all(end.is_set() for end in self._at_work)

    def start(self, job: Callable[[], None]) -> None:
        """Whatever it raises is kept for `check`."""

        end = threading.Event()

        def work() -> None:
            try:
                job()
            except BaseException as trouble:
                self._troubles.append(trouble)
            finally:
                end.set()

        self._at_work.append(end)
        threading.Thread(target=work).start()

    def check(self) -> None:
        """Raises the first trouble of a job."""
        if self._troubles:
            raise self._troubles[0]

    def wait(self) -> None:
        for end in self._at_work:
            while not end.wait(_LOOK_SECONDS):  # in short looks, so that Ctrl-C gets through
                pass


@contextmanager
def crew(size: int, stop: threading.Event) -> Iterator[Crew]:
    """A crew that has finished when the block is left; when the block fails, `stop` asks its jobs to end first."""
    made = Crew(size)
    try:
        yield made
        made.wait()
    except BaseException:
        stop.set()
        raise
    finally:
        made.wait()
    made.check()


def all_at_once(jobs: Sequence[Callable[[], None]], *, at_most: int, stop: threading.Event) -> None:
    """Do all jobs, so many at once. Raises the first trouble of a job, once all have ended."""
    with crew(at_most, stop) as working:
        for job in jobs:
            while not working.has_room:
                stop.wait(_LOOK_SECONDS)
            working.start(job)
