"""One script as a process group of its own, in a fresh copy of its folder, with everything it says in one log."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

LARGEST_FOLDER_BYTES = 100 * 2**20
STOP_SECONDS = 10.0
"""What a script gets to clean up after SIGTERM."""


class FolderTooLarge(Exception):
    """The folder of a spec holds more than a script and its small inputs."""


def copy_folder(source: Path, target: Path) -> None:
    """A fresh copy of a spec's folder, without hidden files (`.env`, `.git`) and caches."""
    size = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    if size > LARGEST_FOLDER_BYTES:
        raise FolderTooLarge(
            f"{source} holds {size / 2**20:.0f} MiB, and a run gets a copy of at most "
            f"{LARGEST_FOLDER_BYTES // 2**20} MiB; give the spec a folder of its own."
        )
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".*", "__pycache__"))


class Script:
    """A running command; leaving the `with` block ends it and everything it started."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str], log: Path) -> None:
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None when it still runs after `seconds`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """End the whole group: first politely, then not. Children that outlive their parent are in it too."""
        if self._signal(signal.SIGTERM):
            deadline = time.monotonic() + STOP_SECONDS
            while time.monotonic() < deadline and self._signal(0):
                time.sleep(0.05)
                self._process.poll()
            self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> bool:
        """Whether there was still somebody in the group to receive it."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True
