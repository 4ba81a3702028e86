"""A real Exchange in a process of its own, to be killed and started again."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI

_SERVE = """
import pathlib, sys
from research_exchange.web import serve
serve(pathlib.Path(sys.argv[1]), port=int(sys.argv[2]))
"""

NO_TLS = False
"""For httpx's `verify`: reading certificates for plain HTTP would cost each request a quarter of a second."""


@dataclass
class Served:
    """A running server."""

    data: Path
    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def admin_token(self) -> str:
        return (self.data / "admin-token").read_text().strip()

    def kill(self) -> None:
        """kill -9: no chance to put anything in order."""
        os.kill(self.process.pid, signal.SIGKILL)
        self._reap()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit status after a polite request to stop."""
        self.process.send_signal(number)
        return self._reap()

    def _reap(self) -> int:
        status = self.process.wait(timeout=30)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status


def start(data: Path, port: int = 0) -> Served:
    process = subprocess.Popen([sys.executable, "-c", _SERVE, str(data), str(port)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("export RX_URL=http://"), f"the server did not start: {line!r}"
    return Served(data, line.strip().removeprefix("export RX_URL="), process)


@contextmanager
def served(data: Path) -> Iterator[Served]:
    server = start(data)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


@contextmanager
def in_thread(app: FastAPI) -> Iterator[str]:
    """Serve an application from this process, for tests that also look inside it."""
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:  # as `serve_app` has it: answers do not wait
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive(), "the server did not start"
                time.sleep(0.005)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def post(url: str, token: str, content: bytes, **params: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.post(url, content=content, params=params, headers=headers, timeout=30, verify=NO_TLS)


def get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=30, verify=NO_TLS)


@dataclass(frozen=True)
class NewRun:
    id: str
    token: str


def new_run(server: Served, spec: bytes) -> NewRun:
    spec_id = post(f"{server.url}/api/specs", server.admin_token, spec, legacy="true").json()["id"]
    body = json.dumps({"spec_id": spec_id}).encode()
    created = post(f"{server.url}/api/runs", server.admin_token, body).json()
    return NewRun(created["id"], created["token"])
