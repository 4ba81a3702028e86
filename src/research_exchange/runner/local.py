"""The local runner: execute a spec's command on this machine, watch it, and say how it ended."""

import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from research_exchange.client import ExchangeRefused, Run
from research_exchange.runner.environment import patch_of, revision_of, script_environment
from research_exchange.runner.script import Script, copy_folder
from research_exchange.runner.services import Service, training_answers

SILENCE_SECONDS = 60.0
"""How long a training service may leave its health check unanswered before its run is given up."""
HEALTH_SECONDS = 5.0
LOG_BYTES = 10 * 2**20
"""The cap of one evidence file (R-163); of a longer log the end is kept."""


@dataclass(frozen=True)
class Ended:
    """How an execution ended."""

    exit_code: int | None
    """None when the runner stopped the script; minus the signal's number when a signal ended it."""
    reason: str
    """One sentence."""


@dataclass(frozen=True)
class LocalRun:
    """One execution of a spec's command for one run."""

    run: Run
    spec_folder: Path
    command: str
    training: Service
    work: Path
    """A new folder for the script's copy and its log; the copy is removed when the script succeeds."""
    wall_seconds: float
    silence_seconds: float = SILENCE_SECONDS

    @property
    def log(self) -> Path:
        """What the script said, on both of its outputs."""
        return self.work / "script.log"

    def execute(self, tick: Callable[[], None] = lambda: None) -> Ended:
        """Run the command to its end, calling `tick` about once a second meanwhile.

        Whatever happens, also an exception or Ctrl-C here, the script and its children are ended, its log is retained
        as evidence and the session is closed with a reason.
        """
        folder = self.work / "folder"
        self.work.mkdir(parents=True)
        copy_folder(self.spec_folder, folder)
        session = self.run.begin_session()
        ended = Ended(None, "The runner was stopped before the script ended.")
        try:
            environment = script_environment(self.run, self.training.variables, revision_of(self.spec_folder))
            if patch := patch_of(self.spec_folder):
                self._retain("code.patch", "code_patch", patch.encode())
            with Script(self.command, folder, environment, self.log) as script:
                ended = self._watch(script, tick)
        finally:
            self._retain(f"log-{session}.txt", "log", self._log_bytes())
            self.run.end_session(session, exit_code=ended.exit_code, reason=ended.reason)
        if ended.exit_code == 0:
            shutil.rmtree(folder)
        return ended

    def _watch(self, script: Script, tick: Callable[[], None]) -> Ended:
        """Until the script ends, or has to be ended."""
        started = time.monotonic()
        with HealthWatch(self.training.url) as health:
            while True:
                exit_code = script.wait(seconds=1.0)
                tick()
                if exit_code is not None:
                    return Ended(exit_code, _how_it_ended(exit_code))
                if time.monotonic() - started > self.wall_seconds:
                    return Ended(None, f"The script was stopped at the wall limit of {_minutes(self.wall_seconds)}.")
                child = self.training.child
                if child is not None and child.exit_code is not None:
                    return Ended(
                        None,
                        f"The training service {_died(child.exit_code)} during the run, so the script was stopped.",
                    )
                if health.silent_seconds > self.silence_seconds:
                    return Ended(
                        None,
                        f"The training service at {self.training.url} has not answered for "
                        f"{self.silence_seconds:.0f} s, so the script was stopped.",
                    )

    def _retain(self, name: str, kind: str, content: bytes) -> None:
        """That the Exchange refuses one of the runner's own files is worth a line, not the run."""
        try:
            self.run.evidence(name, kind, content)
        except ExchangeRefused as refusal:
            self.run.update(summary=f"The runner's file {name} was refused as evidence: {refusal}")

    def _log_bytes(self) -> bytes:
        if not self.log.exists():
            return b""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - LOG_BYTES))
            return log.read(LOG_BYTES)


class HealthWatch:
    """Asks a training service for its health in the background while the `with` block runs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._answered = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    @property
    def silent_seconds(self) -> float:
        """Since its last answer."""
        return time.monotonic() - self._answered

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._stop.wait(HEALTH_SECONDS):
            if training_answers(self._url, timeout=HEALTH_SECONDS):
                self._answered = time.monotonic()


def _how_it_ended(exit_code: int) -> str:
    if exit_code == 0:
        return "The script ended by itself."
    return f"The script {_died(exit_code)}; its log has its last words."


def _died(exit_code: int) -> str:
    if exit_code < 0:
        return f"was ended by {_signal_name(-exit_code)}"
    return f"ended with exit code {exit_code}"


def _signal_name(number: int) -> str:
    """The real-time signals have no name."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 60 else f"{seconds:g} s"
