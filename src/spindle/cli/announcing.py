"""A server's announcement in its data folder, by which others find it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from spindle.control.keys import write_secret
from spindle_whereabouts import SERVER_FILE, Announcement


class Announcer:
    """Says in a data folder, which this process holds, that a server starts and where it is."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / SERVER_FILE
        self._write(Announcement(os.getpid()))

    def is_here(self, secret: str, exports: Mapping[str, str]) -> None:
        """Requests are answered, and `secret` is what `/api/v1/identity` proves."""
        self._write(Announcement(os.getpid(), secret, exports))

    def take_back(self) -> None:
        """Whoever looks for a server should no longer find this one. Again is fine."""
        self._file.unlink(missing_ok=True)

    def _write(self, announcement: Announcement) -> None:
        write_secret(self._file, announcement.to_json())


@contextmanager
def announcing(folder: Path) -> Iterator[Announcer]:
    """A server's announcement, gone at the end; only kill -9 leaves it behind."""
    announcer = Announcer(folder)
    try:
        yield announcer
    finally:
        announcer.take_back()
