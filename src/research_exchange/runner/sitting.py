"""One session of a run on this machine: a command under guard, watched from its start to its end.

Whatever happens, also an exception or Ctrl-C here, the command and its children are ended, its log is retained as
evidence, and the session is closed with a reason.
"""

import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from research_exchange.client import ExchangeRefused, Run
from research_exchange.client.spool import SPOOL_FOLDER, SpoolProblem
from research_exchange.runner.environment import command_environment, secrets_in
from research_exchange.runner.health import HealthWatch
from research_exchange.runner.limits import NO_LIMITS, Limits
from research_exchange.runner.logs import NoRoom, retain_log
from research_exchange.runner.presence import Presence
from research_exchange.runner.remarks import remark
from research_exchange.runner.script import Script
from research_exchange.runner.services import Service
from research_exchange.runner.work_folder import SessionFolder, WorkFolder

__all__ = ["SILENCE_SECONDS", "Ended", "Errand", "Sitting"]

SILENCE_SECONDS = 60.0
"""How long a training service may leave its health check unanswered before its run is given up."""
TAKEOVER_SECONDS = 20.0
"""How long one waits for the end of what a runner that was killed has left behind."""
LINGER_SECONDS = 60.0
"""How long an agent may go on once its run has its final update."""
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Ended:
    """How a session ended."""

    exit_code: int | None
    """None when the runner stopped the command; minus the signal's number when a signal ended it."""
    reason: str
    """One sentence."""
    log: Path
    """What the command said."""


@dataclass(frozen=True)
class Errand:
    """What is executed: a spec's own command, or a coding agent."""

    runner: str
    """What the Exchange calls it: local or agent."""
    who: str
    """What a sentence calls it: script or agent."""
    command: str
    """A line for the shell."""
    prepare: Callable[[SessionFolder], None]
    """Puts what the command finds into the folder that it runs in; called once the session has begun."""
    revision: str | None = None
    """Of the code, where it comes with code."""
    reads: Callable[[SessionFolder], Path | None] = lambda folder: None
    """The file that it gets as its standard input."""
    conclude: Callable[[SessionFolder], None] = lambda folder: None
    """Called after the command has ended, while the session is still open."""
    ends_with_run: bool = False
    """Whether it is ended when it goes on for long after the run's final update."""
    profile: str | None = None
    """The service profile that its brief is written for; None where it gets none."""


@dataclass(frozen=True)
class Sitting:
    """An errand for a run, with everything that bounds it."""

    run: Run
    errand: Errand
    work: WorkFolder
    training: Service
    wall_seconds: float
    passed: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further variables of the command's environment."""
    limits: Limits = NO_LIMITS
    silence_seconds: float = SILENCE_SECONDS
    stop: threading.Event = field(default_factory=threading.Event)
    """Set by whoever wants all sittings of this process to end."""

    def execute(self, tick: Callable[[], None] = lambda: None) -> Ended:
        """Run the command to its end, calling `tick` about once a second meanwhile.

        Raises:
            CannotExecute: somebody else is executing the run on this machine.
        """
        with self.work.occupied(wait=TAKEOVER_SECONDS) as lock:
            return self._execute(lock, tick)

    def _execute(self, lock: int, tick: Callable[[], None]) -> Ended:
        is_resumed = bool(self.run.record()["sessions"])
        session = self.run.begin_session(runner=self.errand.runner, profile=self.errand.profile)
        folder = self.work.new_session(session)
        environment = command_environment(
            self.run,
            self.training.variables,
            state=self.work.state,
            is_resumed=is_resumed,
            passed=self.passed,
            revision=self.errand.revision,
        )
        ended = Ended(None, self._stopped, folder.log)
        try:
            with Presence(self.run, session, asks_for_end=self.errand.ends_with_run) as presence:
                folder.folder.mkdir()
                self.errand.prepare(folder)
                given = self.errand.reads(folder)
                with Script(
                    self.errand.command,
                    folder.folder,
                    environment,
                    folder.log,
                    given=given,
                    limits=self.limits,
                    holds=(lock,),
                ) as script:
                    ended = self._watch(script, presence, folder.log, tick)
                self.errand.conclude(folder)
        finally:
            self._send_left()
            self._retain_log(session, folder.log, environment)
            self.run.end_session(session, exit_code=ended.exit_code, reason=ended.reason)
        if ended.exit_code == 0:
            shutil.rmtree(folder.folder)
        return ended

    @property
    def _stopped(self) -> str:
        return f"The runner was stopped before the {self.errand.who} ended."

    def _watch(self, script: Script, presence: Presence, log: Path, tick: Callable[[], None]) -> Ended:
        """Until the command ends, or has to be ended."""
        started = time.monotonic()
        with HealthWatch(self.training.url) as health:
            while True:
                exit_code = script.wait(LOOK_SECONDS)
                tick()
                if exit_code is not None:
                    return Ended(exit_code, _how_it_ended(self.errand.who, exit_code), log)
                why = self._why_stop(time.monotonic() - started, presence, health)
                if why is not None:
                    return Ended(None, why, log)

    def _why_stop(self, seconds: float, presence: Presence, health: HealthWatch) -> str | None:
        who = self.errand.who
        if self.stop.is_set():
            return self._stopped
        if presence.cancelled is not None:
            return f"The run was cancelled: {presence.cancelled}"
        if presence.over_seconds > LINGER_SECONDS:
            return f"The {who} was stopped: it still ran long after its final update."
        if seconds > self.wall_seconds:
            return f"The {who} was stopped at the wall limit of {_minutes(self.wall_seconds)}."
        child = self.training.child
        if child is not None and child.exit_code is not None:
            return f"The training service {_died(child.exit_code)} during the run, so the {who} was stopped."
        if health.silent_seconds > self.silence_seconds:
            return (
                f"The training service at {self.training.url} has not answered for "
                f"{self.silence_seconds:.0f} s, so the {who} was stopped."
            )
        return None

    def _send_left(self) -> None:
        """What was reported while the Exchange was away, and did not get out before the command ended."""
        try:
            troubles: Sequence[Exception] = self.run.send_spool(self.work.state / SPOOL_FOLDER)
        except (ExchangeRefused, SpoolProblem) as trouble:
            troubles = [trouble]
        for each in troubles:
            remark(self.run, f"A report that had waited for the Exchange is not on record: {each}")

    def _retain_log(self, session: str, log: Path, environment: Mapping[str, str]) -> None:
        """That the Exchange does not take the log is worth a line, not the run."""
        try:
            retain_log(self.run, session, log, secrets_in(environment))
        except (NoRoom, ExchangeRefused) as refusal:
            remark(self.run, str(refusal))


def _how_it_ended(who: str, exit_code: int) -> str:
    if exit_code == 0:
        return f"The {who} ended by itself."
    return f"The {who} {_died(exit_code)}; its log has its last words."


def _died(exit_code: int) -> str:
    if exit_code < 0:
        return f"was ended by {_signal_name(-exit_code)}"
    return f"ended with exit code {exit_code}"


def _signal_name(number: int) -> str:
    """The real-time signals have no name."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 60 else f"{seconds:g} s"
