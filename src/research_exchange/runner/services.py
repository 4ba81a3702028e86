"""The two services a run needs, found or started: the Exchange itself and a Tinker-compatible training service.

An Exchange started here is a child process that ends with this one, however this one ends. It says on its standard
output, as `export NAME=value` lines, how to reach it; everything else it says is kept in a log file. A Spindle is
shared with every runner that works on its data folder, see `shared_spindle`.
"""

import importlib.util
import io
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx

from research_exchange.client import Exchange
from research_exchange.runner.errors import ServiceError
from research_exchange.runner.guarded import GuardedCommand
from research_exchange.runner.logs import tail
from research_exchange.runner.shared_spindle import StartedSpindle, shared_spindle
from research_exchange.whereabouts import SERVER_FILE
from spindle_whereabouts import data_directory

EXCHANGE_START_SECONDS = 60.0
STOP_SECONDS = 15.0
"""What a service gets to stop by itself before it is killed."""
TRAINING_VARIABLES = ("TINKER_BASE_URL", "TINKER_API_KEY", "HF_HUB_CACHE")


@dataclass(frozen=True)
class Service:
    """A service that answers."""

    url: str
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What a script needs in its environment to use it; holds a key."""
    child: "Child | StartedSpindle | None" = None
    """The process behind it, when it was started here."""


class Child:
    """A service as a child process under guard."""

    def __init__(self, command: Sequence[str], *, announces: Sequence[str], log: Path) -> None:
        """Start `command`, which is ready once it has exported every name in `announces`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self._command = command
        self._announces = frozenset(announces)
        self._ready = threading.Event()
        self.exported: dict[str, str] = {}
        self._guarded = GuardedCommand(command, errors=log, stop_seconds=STOP_SECONDS)
        assert self._guarded.stdout is not None
        lines = io.TextIOWrapper(self._guarded.stdout, errors="replace")
        self._reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._guarded.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._guarded.exit_code

    def wait_until_ready(self, seconds: float) -> None:
        """Raises ServiceError when it ends before it is ready, or is not ready in time."""
        deadline = time.monotonic() + seconds
        while not self._ready.wait(0.1):
            if self.exit_code is None and time.monotonic() < deadline:
                continue
            what = f"did not start within {seconds:.0f} s" if self.exit_code is None else "did not start"
            said = self.log.read_text(errors="replace")
            raise ServiceError(f"`{shlex.join(self._command)}` {what}. The end of {self.log}:\n{tail(said)}")

    def stop(self) -> None:
        """Ask it to stop, and make it."""
        self._guarded.stop()
        self._reader.join(STOP_SECONDS)

    def _read(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                for word in shlex.split(line)[1:] if line.startswith("export ") else []:
                    name, _, value = word.partition("=")
                    self.exported[name] = value
                if self._announces <= self.exported.keys():
                    self._ready.set()


def _nothing(line: str) -> None:
    """To nobody."""


@contextmanager
def exchange_service(
    data: Path,
    url: str | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    say: Callable[[str], None] = _nothing,
) -> Iterator[Service]:
    """The Exchange at `url`, else at RX_URL, else the one that serves `data`; one started here when there is none.

    `say` is told what is started, since that takes seconds.

    Raises:
        ServiceError: an Exchange that was named does not answer, or none can be started.
    """
    named = url or environment.get("RX_URL")
    if named:
        if not Exchange(named).answers():
            raise ServiceError(f"No Exchange answers at {named}; start one with `rx serve`, or leave the address out.")
        yield Service(named)
        return
    running = announced_exchange(data)
    if running:
        yield Service(running)
        return
    # The usual port where it is free, so that a page's address stays good.
    command = [sys.executable, "-m", "research_exchange.cli", "serve", "--data", str(data), "--or-any"]
    say("Starting the Exchange.")
    log = data / "logs" / "exchange.log"
    with _started(command, announces=["RX_URL"], log=log, seconds=EXCHANGE_START_SECONDS) as child:
        yield Service(child.exported["RX_URL"], child=child)


@contextmanager
def training_service(
    data: Path, environment: Mapping[str, str] = os.environ, *, say: Callable[[str], None] = _nothing
) -> Iterator[Service]:
    """The training service at TINKER_BASE_URL; without one, the Spindle of its data folder, found or started.

    `say` is told which of the two.

    Raises:
        ServiceError: the service that was named does not answer, or none can be started.
    """
    named = environment.get("TINKER_BASE_URL")
    if named:
        if not training_answers(named):
            raise ServiceError(
                f"No training service answers at {named} (TINKER_BASE_URL); start it, or unset the variable."
            )
        yield Service(named, {name: environment[name] for name in TRAINING_VARIABLES if environment.get(name)})
        return
    if importlib.util.find_spec("spindle") is None:
        raise ServiceError(
            "Spindle is not installed: pip install 'research-exchange[spindle]', or set TINKER_BASE_URL."
        )
    folder = data_directory(environment=environment)
    with shared_spindle(folder, log=data / "logs" / "spindle.log", say=say) as used:
        variables = {name: used.exports[name] for name in TRAINING_VARIABLES if name in used.exports}
        yield Service(variables["TINKER_BASE_URL"], variables, used.started)


def training_answers(url: str, *, timeout: float = 5.0) -> bool:
    """Whether a training service is there at all; it may well be busy."""
    try:
        return httpx.get(f"{url.rstrip('/')}/api/v1/healthz", timeout=timeout).status_code < 500
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


@contextmanager
def _started(command: Sequence[str], *, announces: Sequence[str], log: Path, seconds: float) -> Iterator[Child]:
    child = Child(command, announces=announces, log=log)
    try:
        child.wait_until_ready(seconds)
        yield child
    finally:
        child.stop()


def announced_exchange(data: Path) -> str | None:
    """The address of the Exchange that serves a data folder.

    A file left behind by a killed one leads nowhere: whoever answers at its address by now does not know its secret.
    """
    try:
        announced = json.loads((data / SERVER_FILE).read_text())
        url, secret = str(announced["url"]), str(announced["secret"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url if Exchange(url).proves(secret) else None
