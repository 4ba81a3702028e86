"""One side of a comparison in a process of its own: `python -m benchmarks.worker SIDE NAME FOLDER`.

It reads what to do from its standard input, one JSON list `[method, *arguments]` a line, and answers each with how
long that took and how much memory the process has used at most.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spindle.backends.models import InstalledModel


@dataclass(frozen=True)
class Measured:
    """What a piece of work took."""

    seconds: float
    peak: float
    """GiB of the process so far, at most."""


class Worker:
    """A side that has been started and loaded."""

    def __init__(self, side: str, model: InstalledModel) -> None:
        self._side = side
        command = [sys.executable, "-m", "benchmarks.worker", side, model.name, str(model.path)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def do(self, method: str, *arguments: Any) -> Measured:
        """Do it and wait for the end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([method, *arguments]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"The side {self._side} ended while it did {method}.")
        return Measured(**json.loads(answer))


def _spindle(model: InstalledModel) -> Any:
    from benchmarks.ours import Spindle

    return Spindle(model)


def _libraries(model: InstalledModel) -> Any:
    from benchmarks.peers import Libraries

    return Libraries(model.path)


def _llama_cpp(_: InstalledModel) -> Any:
    from benchmarks.llama_cpp import LlamaCpp

    return LlamaCpp()


SIDES: dict[str, Callable[[InstalledModel], Any]] = {
    "spindle": _spindle,
    "libraries": _libraries,
    "llama.cpp": _llama_cpp,
}


def main(side: str, name: str, folder: str) -> None:
    """Answer until the input ends."""
    worker = SIDES[side](InstalledModel(name, Path(folder), source="local"))
    for line in sys.stdin:
        method, *arguments = json.loads(line)
        begun = time.perf_counter()
        getattr(worker, method)(*arguments)
        print(json.dumps({"seconds": time.perf_counter() - begun, "peak": _peak()}), flush=True)


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / (1 << 20)


if __name__ == "__main__":
    main(*sys.argv[1:])
