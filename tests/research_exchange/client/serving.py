"""A real Exchange in a process of its own, for tests that kill it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from research_exchange.client import Exchange


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class ServedExchange:
    """`rx serve` on one data folder and one port, to be started, killed and started again."""

    def __init__(self, data: Path, port: int | None = None) -> None:
        self.data = data
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def admin_token(self) -> str:
        return (self.data / "admin-token").read_text().strip()

    def connect(self, *, patience: float = 60.0) -> Exchange:
        return Exchange(self.url, self.admin_token, patience=patience)

    def start(self) -> None:
        command = [sys.executable, "-m", "research_exchange.cli", "serve"]
        with (self.data.parent / "exchange.log").open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, "--data", str(self.data), "--port", str(self.port)], stdout=subprocess.DEVNULL, stderr=errors
            )
        deadline = time.monotonic() + 60
        while not Exchange(self.url).answers():
            assert self._process.poll() is None, (self.data.parent / "exchange.log").read_text()
            assert time.monotonic() < deadline, "the Exchange did not start"
            time.sleep(0.1)

    def kill(self) -> None:
        """kill -9: no chance to say goodbye."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)


@contextmanager
def served_exchange(folder: Path) -> Iterator[ServedExchange]:
    exchange = ServedExchange(folder / "exchange")
    exchange.start()
    try:
        yield exchange
    finally:
        exchange.stop()
