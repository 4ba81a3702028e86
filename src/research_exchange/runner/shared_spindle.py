"""One Spindle for every runner of this machine that works on its data folder: found there, or started there.

Every runner that uses it holds a shared lock on a file of that folder, which the system takes back from a process
however that ends. The Spindle that a runner starts belongs to no runner and to no terminal: it stops by itself once
nobody holds the lock. It holds it alone until it has stopped, so that nobody begins to use it meanwhile.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from research_exchange.client.connection import Connection
from research_exchange.runner.errors import ServiceError
from research_exchange.runner.logs import tail
from spindle_whereabouts import USERS_FILE, Announcement

__all__ = ["StartedSpindle", "UsedSpindle", "shared_spindle"]

START_SECONDS = 600.0
"""Long, because a first start may have to download a model."""
GRACE_SECONDS = 10.0
"""What a computation gets to end when nobody waits for its result any more."""
STOP_SECONDS = GRACE_SECONDS + 10.0
"""What a Spindle gets to stop by itself before it is killed."""
RETRY_SECONDS = 5.0
"""Between two attempts to start a Spindle in a folder that another program has."""
LOOK_SECONDS = 0.1
ANOTHER = "Another Spindle is at work here"
INSTEAD = "or name another folder in SPINDLE_DATA."


class StartedSpindle:
    """A Spindle that was started here, in a session of its own: no Ctrl-C in a terminal reaches it."""

    def __init__(self, folder: Path, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._command = [sys.executable, "-m", "spindle.cli", "serve", "--port", "0", "--data", str(folder)]
        self._command += ["--grace", f"{GRACE_SECONDS:g}", "--while-locked", str(folder / USERS_FILE)]
        self._log = log
        with log.open("ab") as kept:
            self._log_start = kept.tell()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # it would print its key
                stderr=kept,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._process.poll()

    @property
    def is_refused(self) -> bool:
        """Whether it ended because another program has the folder."""
        return self.exit_code is not None and "Another spindle serves" in self._said

    def problem(self, what: str) -> ServiceError:
        """That it `what`, with its last words."""
        return ServiceError(f"`{' '.join(self._command)}` {what}. The end of {self._log}:\n{tail(self._said)}")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def _said(self) -> str:
        return self._log.read_bytes()[self._log_start :].decode(errors="replace")


@dataclass(frozen=True)
class UsedSpindle:
    """A Spindle that answers, and goes on doing so for as long as it is used."""

    exports: Mapping[str, str] = field(repr=False)
    """What a client needs in its environment; holds a key."""
    started: StartedSpindle | None = None
    """Its process, when it was started here."""


@contextmanager
def shared_spindle(folder: Path, *, log: Path, say: Callable[[str], None]) -> Iterator[UsedSpindle]:
    """The Spindle that serves a data folder, or one that is started there and says the rest in a log.

    At the end the one that was started here is waited for until it has stopped, unless others still use it.

    Raises:
        ServiceError: none can be used and none started.
    """
    use = _Use(folder, log, say)
    try:
        yield use.begin()
    finally:
        use.end()


class _Use:
    """One process's part in the Spindle of a folder."""

    def __init__(self, folder: Path, log: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._log = log
        self._say = say
        self._started: StartedSpindle | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._users = os.open(folder / USERS_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ServiceError(
                f"Spindle's data folder {folder} cannot be used: {error.strerror} ({error.filename}). Make it yours, "
                f"{INSTEAD}"
            ) from None

    def begin(self) -> UsedSpindle:
        """From here on the Spindle does not stop by itself."""
        self._count_in()
        found = self._find()
        if found is None:
            self._say("Starting Spindle, the training service.")
            found = self._start()
        if self._started is not None and self._started.pid == found.pid:
            return UsedSpindle(found.exports, self._started)
        self._say(f"Using the Spindle that is at work at {found.url}.")
        return UsedSpindle(found.exports)

    def end(self) -> None:
        """Say that it is not used here any more; one that was started here may have to be waited for."""
        fcntl.flock(self._users, fcntl.LOCK_UN)
        deadline = time.monotonic() + STOP_SECONDS
        while self._started is not None and self._started.exit_code is None and not self._is_used_by_others():
            if time.monotonic() > deadline:
                self._started.kill()
            time.sleep(LOOK_SECONDS)
        os.close(self._users)

    def _count_in(self) -> None:
        """One that is stopping keeps everybody out until it has stopped."""
        deadline = time.monotonic() + 2 * STOP_SECONDS
        while not self._lock(fcntl.LOCK_SH):
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"The Spindle in {self._folder} has been stopping for {2 * STOP_SECONDS:.0f} s; end its process, "
                    f"{INSTEAD}"
                )
            time.sleep(LOOK_SECONDS)

    def _is_used_by_others(self) -> bool:
        """Once this process has let go of the lock."""
        if self._lock(fcntl.LOCK_EX):
            fcntl.flock(self._users, fcntl.LOCK_UN)
            return False  # and the Spindle is about to see that
        if self._lock(fcntl.LOCK_SH):
            fcntl.flock(self._users, fcntl.LOCK_UN)
            return True
        return False

    def _lock(self, kind: int) -> bool:
        try:
            fcntl.flock(self._users, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _start(self) -> Announcement:
        """Of several that start at the same moment, the folder takes one; the others find it."""
        deadline = time.monotonic() + START_SECONDS
        is_first = True
        while True:
            self._started = StartedSpindle(self._folder, self._log)
            found = self._wait(deadline, self._started)
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise self._started.problem(f"did not start within {START_SECONDS:.0f} s")
            if not self._started.is_refused:
                raise self._started.problem("did not start")
            announced = Announcement.read(self._folder)
            is_starting = announced is not None and announced.url is None
            if is_first and is_starting:
                self._say("Another Spindle is starting here already; waiting for it.")
            elif not is_first and not is_starting:
                raise ServiceError(
                    f"{ANOTHER}, and nothing in its data folder {self._folder} says how to reach it; perhaps it is "
                    "somebody else's, or it is stopping. Wait for it; or export the lines that `spindle serve` "
                    f"printed, and both use that one; {INSTEAD}"
                )
            is_first = False
            found = self._wait(time.monotonic() + RETRY_SECONDS)
            if found is not None:
                return found

    def _wait(self, deadline: float, started: StartedSpindle | None = None) -> Announcement | None:
        """Until there is a Spindle, it is late, or what was started has ended."""
        while True:
            is_over = time.monotonic() > deadline or (started is not None and started.exit_code is not None)
            found = self._find()
            if found is not None or is_over:
                return found
            time.sleep(LOOK_SECONDS)

    def _find(self) -> Announcement | None:
        """What was announced by one that is at work.

        What a killed one left behind leads nowhere: whoever answers at its address by now does not know its secret.
        """
        found = Announcement.read(self._folder)
        if found is None or found.url is None:
            return None
        if not Connection(f"{found.url}/api/v1", token=None).proves(found.secret):
            return None
        if "TINKER_API_KEY" not in found.exports:
            raise ServiceError(
                f"{ANOTHER}, with a key for each of its owners: export TINKER_BASE_URL={found.url} and your "
                f"TINKER_API_KEY, {INSTEAD}"
            )
        return found
