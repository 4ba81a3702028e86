"""How others find a server, and how one ends that nobody uses."""

import fcntl
import hmac
import json
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from spindle.cli.announcing import announcing
from spindle_whereabouts import SERVER_FILE, Announcement
from tests.servers import SpindleServer, tiny_model
from tests.spindle.command import spindle


@contextmanager
def held(file: Path) -> Iterator[None]:
    """A shared lock, as whoever uses a server has it."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield


def test_a_server_says_where_it_is_proves_it_and_stops_once_nobody_holds_the_lock(tmp_path: Path) -> None:
    users = tmp_path / "users"
    server = SpindleServer(tiny_model(tmp_path / "tiny"), tmp_path / "data", options=("--while-locked", str(users)))
    with held(users):
        server.start()
        announced = Announcement.read(server.data)
        assert announced is not None
        assert server.process is not None
        assert (announced.pid, announced.exports) == (server.process.pid, server.exports)
        assert stat.S_IMODE((server.data / SERVER_FILE).stat().st_mode) == 0o600
        assert server.key not in repr(announced)
        assert announced.secret not in repr(announced)

        identity = f"{server.url}/api/v1/identity"
        challenge = "0123456789abcdef" * 2
        proof = hmac.new(announced.secret.encode(), challenge.encode(), "sha256").hexdigest()
        assert httpx.get(identity, params={"challenge": challenge}).json() == {"proof": proof}
        for wrong in ({}, {"challenge": "x" * 32}, {"challenge": challenge + "0"}):
            assert httpx.get(identity, params=wrong).status_code == 400

        with held(users):
            pass
        time.sleep(1)  # several of its looks
        assert server.process.poll() is None, "one of its two users is left"
    while (server.data / SERVER_FILE).exists():
        time.sleep(0.01)
    with pytest.raises(BlockingIOError), held(users):
        pass
    assert server.process.wait(30) == 0, "nobody begins to use it before it has stopped"
    server.stop()
    assert not (server.data / SERVER_FILE).exists()
    assert f"Nobody holds a lock on {users} any more, so Spindle stops." in server.log
    assert "Traceback" not in server.log


def test_a_server_that_is_asked_to_stop_cannot_be_found_while_it_does(tmp_path: Path) -> None:
    server = SpindleServer(tiny_model(tmp_path / "tiny"), tmp_path / "data").start()
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    while (server.data / SERVER_FILE).exists():
        assert server.process.poll() is None, "it was found until its end"
        time.sleep(0.01)
    assert httpx.get(f"{server.url}/api/v1/healthz").status_code == 200, "those who use it can still hear how it ends"
    assert server.process.wait(30) == 0
    server.stop()


def test_a_server_that_starts_says_so_and_one_that_failed_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), announcing(tmp_path):
        announced = Announcement.read(tmp_path)
        assert announced is not None
        assert announced.url is None
        assert json.loads((tmp_path / SERVER_FILE).read_text())["exports"] == {}
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    wanted = tmp_path / "nowhere" / "users"
    result = spindle("serve", "--while-locked", str(wanted), "--data", str(tmp_path / "data"))
    assert f"--while-locked {wanted} cannot be opened (No such file or directory)" in result.complaint
