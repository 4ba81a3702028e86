"""The HTTP server process: one socket, signals that end it, and a word when it is ready."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

KEEP_ALIVE = 75
"""Seconds an idle connection stays open; clients keep pools of them."""
GRACE = 3
"""Seconds that open requests get to end at shutdown."""
LAST_WORDS = 0.5
"""Seconds in which clients can still ask how their requests ended."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one. Raises `OSError` when the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio knows its connections to be TCP and sends at once; else the body of each answer
    # waits until its headers are acknowledged, which takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


def serve(
    app: FastAPI, listener: socket.socket, ready: Callable[[], None], leaving: Callable[[], None] = lambda: None
) -> None:
    """Serve until SIGINT or SIGTERM, a second of which ends at once.

    Args:
        app: The application.
        listener: As `bind` gives it.
        ready: Called once requests are answered.
        leaving: Called when the server is asked to stop, while it still answers.
    """
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )
    _Server(config, app, ready, leaving).run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, app: FastAPI, ready: Callable[[], None], leaving: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready
        self._leaving = leaving
        self._ending: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ends the server without raising the signal again, so that the process exits with status 0."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)
        yield

    def _signalled(self) -> None:
        if self._ending is not None:
            os._exit(1)  # asked twice: nothing unfinished is visible on disk
        self._ending = asyncio.get_running_loop().create_task(self._end())
        self._leaving()

    async def _end(self) -> None:
        """Let the running command end while clients can still hear of it."""
        try:
            await self._app.state.stop()
            await asyncio.sleep(LAST_WORDS)
        finally:
            self.should_exit = True
