"""Several sittings at once, each in a thread of its own; whatever ends this process ends them all in good order."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

__all__ = ["Crew", "all_at_once"]

_LOOK_SECONDS = 0.2


class Crew:
    """At most so many jobs at once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._threads: list[threading.Thread] = []
        self._troubles: list[BaseException] = []

    @property
    def has_room(self) -> bool:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return len(self._threads) < self._size

    @property
    def is_idle(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def start(self, job: Callable[[], None]) -> None:
        """Whatever it raises is kept for `check`."""

        def work() -> None:
            try:
                job()
            except BaseException as trouble:
                self._troubles.append(trouble)

        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def check(self) -> None:
        """Raises the first trouble of a job."""
        if self._troubles:
            raise self._troubles[0]

    def wait(self) -> None:
        for thread in self._threads:
            while thread.is_alive():  # in short looks, so that Ctrl-C gets through
                thread.join(_LOOK_SECONDS)


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
