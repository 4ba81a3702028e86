"""An Exchange as a process: bind, say where, serve, and leave nothing behind on a clean stop."""

import errno
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from alembic.util import CommandError
from fastapi import FastAPI
from sqlalchemy.exc import DatabaseError

from research_exchange.server.access import write_private
from research_exchange.server.bell import Bell
from research_exchange.server.door import BadSetting
from research_exchange.store import BadDatabaseUrl, StorageUnreachable
from research_exchange.whereabouts import SERVER_FILE


class CannotServe(Exception):
    """Why the server did not start, as one sentence."""


@contextmanager
def opening(data: Path) -> Iterator[None]:
    """While a data folder is opened, says in one sentence why it cannot be.

    Raises:
        CannotServe: It cannot be made or written, or holds something else than this version's database.
    """
    try:
        yield
    except BadSetting as error:
        raise CannotServe(str(error)) from None
    except (OSError, DatabaseError, CommandError) as error:
        raise CannotServe(_why_not_opened(error, data)) from error


def _why_not_opened(error: Exception, data: Path) -> str:
    if isinstance(error, BadDatabaseUrl | StorageUnreachable):
        return str(error)
    why = error.strerror if isinstance(error, OSError) else str(getattr(error, "orig", error)).partition("\n")[0]
    return f"Cannot keep an Exchange in {data}: {why}. Choose another folder with --data, or another --database-url."


def serve_app(app: FastAPI, data: Path, host: str, port: int, *, or_any: bool = False) -> None:
    """Serve `app` until SIGINT or SIGTERM; with `or_any` at any free port where this one is taken.

    When it answers, it says so on stdout with a line for a shell, `export RX_URL=http://…`, and in
    `<data>/server.json`, which a clean stop removes.

    Raises:
        CannotServe: The address is taken or not this machine's.
    """
    with _listen(host, port, or_any=or_any) as listener:
        bound_port = listener.getsockname()[1]
        shown_host = f"[{host}]" if ":" in host else host
        server = _AnnouncingServer(app, f"http://{shown_host}:{bound_port}", data / SERVER_FILE)
        with _signals_end_quietly():
            server.run(sockets=[listener])


class _AnnouncingServer(uvicorn.Server):
    """Announces itself once it answers, and takes the announcement back when it stops."""

    def __init__(self, app: FastAPI, url: str, server_file: Path) -> None:
        super().__init__(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5, server_header=False))
        self._url = url
        self._server_file = server_file
        self._secret: str = app.state.identity
        self._bell: Bell = app.state.exchange.bell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.should_exit:
            return
        announcement = {"url": self._url, "pid": os.getpid(), "secret": self._secret}
        write_private(self._server_file, json.dumps(announcement) + "\n")
        print(f"export RX_URL={self._url}", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._bell.close()
        if _pid_in(self._server_file) == os.getpid():
            self._server_file.unlink()
        await super().shutdown(sockets)


@contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """uvicorn stops on a signal and then raises it once more; here having stopped is enough."""
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pid_in(server_file: Path) -> int | None:
    """Whose announcement the file is; another server may have taken the folder over."""
    try:
        announced = json.loads(server_file.read_text())
    except (OSError, ValueError):
        return None
    pid = announced.get("pid") if isinstance(announced, dict) else None
    return pid if isinstance(pid, int) else None


def _listen(host: str, port: int, *, or_any: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # A listener that names its protocol hands on connections that asyncio knows to be TCP, and sends on without waiting
    # for more; on others an answer's body waits until its headers are acknowledged, which takes 40 ms.
    listener = socket.socket(family, proto=socket.IPPROTO_TCP)
    # A server that was killed leaves connections behind that would block the port for a minute.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # at once: two that reuse an address may both bind it, and only one may listen
    except (OSError, OverflowError) as error:
        listener.close()
        if or_any and isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            return _listen(host, 0, or_any=False)
        why = error.strerror if isinstance(error, OSError) else "a port is a number up to 65535"
        raise CannotServe(
            f"Cannot serve at {host}:{port}: {why}. Choose --host and --port; port 0 is any free one."
        ) from error
    return listener
