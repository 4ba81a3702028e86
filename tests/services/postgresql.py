"""PostgreSQL as Debian packages it, in a folder of its own, reached through a socket in that folder alone."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from tests.services.missing import not_installed

_OWNER = "rx"


class PostgreSQLServer:
    """One server process; every test gets a database of its own, copied from a template."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)

    def url(self, database: str) -> str:
        return f"postgresql://{_OWNER}@/{database}?host={self._folder}"

    def create(self, template: str = "template0") -> str:
        """A new database, a copy of `template`; returns its name."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def drop(self, database: str) -> None:
        self._execute(f"DROP DATABASE {database} WITH (FORCE)")

    def start(self) -> None:
        server = _program("postgres")
        user = _unprivileged_user()
        if user is not None:
            shutil.chown(self._folder, user)
        data = self._folder / "data"
        if not data.exists():
            initdb = [f"--pgdata={data}", f"--username={_OWNER}", "--auth=trust", "--no-sync", "--locale=C"]
            command = [str(_program("initdb")), *initdb, "--encoding=UTF8"]
            subprocess.run(command, user=user, cwd="/", check=True, capture_output=True)
        options = [f"-D{data}", f"-k{self._folder}", "-clisten_addresses=", "-cfsync=off"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([server, *options], user=user, cwd="/", stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while True:
            try:
                self._execute("SELECT 1")
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < deadline, "PostgreSQL does not answer"
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def running_postgresql() -> Iterator[PostgreSQLServer]:
    # A socket's path may have 107 characters: the tests' own folders are too deep, and closed to another user.
    with tempfile.TemporaryDirectory(prefix="rx-pg-", ignore_cleanup_errors=True) as folder:
        server = PostgreSQLServer(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _program(name: str) -> Path:
    """The newest of Debian's versions, which are not on the PATH, else that of the PATH."""
    packaged = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    found = packaged[-1] if packaged else shutil.which(name)
    if found is None:
        not_installed("PostgreSQL", "make services")
    return Path(found)


def _unprivileged_user() -> str | None:
    """PostgreSQL refuses to run as root; None for somebody who is not."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
