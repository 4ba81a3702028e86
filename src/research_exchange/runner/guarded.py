"""A command under guard: whatever ends whoever started it, also kill -9, the command and its children end too."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from research_exchange.runner import guard
from research_exchange.runner.limits import NO_LIMITS, Limits

__all__ = ["GuardedCommand"]

_GUARD_SECONDS = 10.0
"""What the guard gets, beyond what the command gets to clean up, before both are killed."""
_GUARDS_OWN = ("PATH", "LD_LIBRARY_PATH")
"""All that the guard gets of an environment: the command can read that of the process that started it."""


class GuardedCommand:
    """A running command, in a process group of its own."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] = os.environ,
        output: Path | None = None,
        errors: Path | None = None,
        given: Path | None = None,
        limits: Limits = NO_LIMITS,
        holds: Sequence[int] = (),
        stop_seconds: float,
    ) -> None:
        """Start it.

        Args:
            command: Program and arguments.
            folder: Where it runs.
            environment: All that it sees of an environment.
            output: The file that takes what it says, on both of its outputs; without one, `stdout` is a pipe to read.
            errors: Where there is no `output`, the file that takes its standard error.
            given: The file that it reads as its standard input; without one, that is empty.
            limits: What it may use.
            holds: Open files, such as locks, that stay open until it and everything it started has ended.
            stop_seconds: What it gets to clean up after SIGTERM.
        """
        order = {
            "command": list(command),
            "folder": str(folder or Path.cwd()),
            "environment": dict(environment),
            "output": None if output is None else str(output),
            "input": None if given is None else str(given),
            "limits": limits.values(),
            "stop_seconds": stop_seconds,
        }
        self._stop_seconds = stop_seconds
        with (errors or output or Path(os.devnull)).open("ab") as kept:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if output is None else subprocess.DEVNULL,
                stderr=kept,
                env={name: os.environ[name] for name in _GUARDS_OWN if name in os.environ},
                start_new_session=True,
                pass_fds=holds,
            )
        assert self._process.stdin is not None
        self._lifeline = self._process.stdin
        with suppress(BrokenPipeError):
            self._lifeline.write(json.dumps(order).encode() + b"\n")
            self._lifeline.flush()

    @property
    def pid(self) -> int:
        """Of the guard, and of the group that the command starts in."""
        return self._process.pid

    @property
    def stdout(self) -> IO[bytes] | None:
        return self._process.stdout

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None when it still runs after `seconds`. When it has ended, so have its children."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """End it and everything it started: first politely, then not."""
        with suppress(BrokenPipeError):
            self._lifeline.close()
        if self.wait(self._stop_seconds + _GUARD_SECONDS) is None:
            self._process.kill()
            self._process.wait()
        if self.exit_code == -signal.SIGKILL:
            # Perhaps the guard itself was killed, and what it guarded lives on in its group.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def in_shell(command: str) -> list[str]:
    """A line for the shell as program and arguments."""
    return ["/bin/sh", "-c", command]
