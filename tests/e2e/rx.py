"""`rx run` as a process of its own, with everything that it starts."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 800


@dataclass
class Rx:
    """The `rx` command on one data folder, with a training service's data folder of its own."""

    data: Path
    spindle_data: Path

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            self._command(*arguments), capture_output=True, text=True, env=self._environment(), timeout=120, check=False
        )

    @contextmanager
    def running(self, *arguments: str) -> Iterator["RunningRx"]:
        """Start a command, to watch it and to interfere."""
        output = self.data.parent / "rx.log"
        with output.open("wb") as log:
            process = subprocess.Popen(
                self._command(*arguments), stdout=log, stderr=subprocess.STDOUT, env=self._environment()
            )
        try:
            yield RunningRx(process, output)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(60)

    def left_running(self) -> list[int]:
        """Processes that still work with these data folders."""
        marks = [f"SPINDLE_DATA={self.spindle_data}".encode(), str(self.data).encode()]
        return [pid for pid in _processes() if any(mark in _words(pid) for mark in marks)]

    def record(self, run_id: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self("show", run_id, "--json").stdout)
        return record

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "research_exchange.cli", *arguments, "--data", str(self.data)]

    def _environment(self) -> Mapping[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("RX_", "TINKER_", "SPINDLE_"))
        }
        return {**kept, "SPINDLE_DATA": str(self.spindle_data), "COLUMNS": "120"}


@dataclass
class RunningRx:
    """A command that goes on."""

    process: "subprocess.Popen[bytes]"
    output: Path

    @property
    def said(self) -> str:
        return self.output.read_text()

    @property
    def run_id(self) -> str:
        _, found, rest = self.said.partition("/runs/")
        assert found, self.said
        return rest.split()[0]

    def wait_for(self, words: str) -> None:
        """Until it has said them."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.2)

    def wait(self) -> int:
        """Until it ends; returns its exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def kill_training_service(self) -> None:
        """kill -9 of the Spindle that it started."""
        command = b"spindle.cli\0serve"
        [spindle] = [pid for pid in _descendants(self.process.pid) if command in _words(pid)]
        os.kill(spindle, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    """Its children and theirs: a guard stands between a runner and what it starts."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield int(child)
        yield from _descendants(int(child))


def _processes() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            yield int(entry.name)


def _words(pid: int) -> bytes:
    """Its command line and environment; nothing for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() + b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
