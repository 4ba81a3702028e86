"""A small process between a runner and a command, so that nothing the command starts outlives either of them.

The runner starts this file by itself (`python -I -S guard.py`), writes one line of JSON to its standard input and keeps
that pipe open. When the pipe closes, because the runner is done or because it was killed, even by SIGKILL, everything
is ended: first politely, then not. The same happens when the command ends and leaves children behind. Children that
moved to a session of their own are found too: orphans fall to this process, where the system lets it ask for them.

It ends as the command ended, by the same exit code or the same signal. Without /proc, as on macOS, only what runs in
the group of the command is ended, by whoever started this.
"""

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
"""Of prctl(2), on Linux."""
_LOOK_SECONDS = 0.05


def main() -> None:
    order = json.loads(_first_line())
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    stopped: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    try:
        command = _start(order)
    except OSError as error:
        sys.exit(f"{error.filename or order['command'][0]} cannot be started: {error.strerror}.")
    ended = _Ended(command.pid)
    while ended.status is None and not stopped:
        readable, _, _ = select.select([0, wake], [], [])
        if wake in readable:
            os.read(wake, 4096)
        if 0 in readable and not os.read(0, 4096):
            break
        ended.reap()
    _end_everything(order["stop_seconds"], ended)
    _end_like(ended.status)


class _Ended:
    """How the command ended; its orphans are reaped on the way."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.status: int | None = None

    def reap(self) -> None:
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if found[0] == self._pid:
                    self.status = found[1]


def _first_line() -> bytes:
    """The runner writes nothing else before it closes the pipe."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 65536)
        if not part:
            sys.exit("guard: nothing was ordered")
        line += part
    return line


def _start(order: dict[str, Any]) -> "subprocess.Popen[bytes]":
    parent = os.getpid()

    def in_child() -> None:
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, value in order["limits"].items():
            limit = getattr(resource, name)
            hard = resource.getrlimit(limit)[1]
            lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (lowest, lowest))

    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if order["output"] else None
    with open(order["input"] or os.devnull, "rb") as given:  # noqa: PTH123 - paths are plain text here
        return subprocess.Popen(
            order["command"],
            cwd=order["folder"],
            env=order["environment"],
            stdin=given,
            stdout=output,
            stderr=output,
            preexec_fn=in_child,  # noqa: PLW1509 - this process has one thread
        )


def _end_everything(stop_seconds: float, ended: _Ended) -> None:
    deadline = time.monotonic() + stop_seconds
    asked: set[int] = set()
    while alive := _descendants():
        is_late = time.monotonic() >= deadline
        for pid in alive - asked if not is_late else alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL if is_late else signal.SIGTERM)
        asked |= alive
        time.sleep(_LOOK_SECONDS)
        ended.reap()
    ended.reap()


def _descendants() -> set[int]:
    """Everybody alive who descends from this process or is in its group."""
    own, group = os.getpid(), os.getpgid(0)
    found: set[int] = set()
    children: dict[int, set[int]] = {}
    for pid, parent, its_group in _processes():
        children.setdefault(parent, set()).add(pid)
        if its_group == group and pid != own:
            found.add(pid)
    unseen = children.get(own, set()) | found
    while unseen:
        found |= unseen
        unseen = {child for pid in unseen for child in children.get(pid, ())} - found
    return found


def _processes() -> Iterator[tuple[int, int, int]]:
    """Each that is alive, with its parent and its group."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            state, parent, group, *_ = entry.read_text(errors="replace").rpartition(")")[2].split()
            if state != "Z":
                yield int(entry.parent.name), int(parent), int(group)


def _end_like(status: int | None) -> None:
    if status is None:
        os._exit(1)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _prctl(option: int, value: int) -> None:
    """Linux alone has it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
