"""The server as a process: what it announces, how it stops, and that kill -9 loses nothing acknowledged."""

import hashlib
import json
import signal
import socket
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from research_exchange.server import CannotServe
from research_exchange.store import Store
from research_exchange.web import serve
from research_exchange.whereabouts import default_data_folder
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.serving import NO_TLS, NewRun, Served, get, new_run, post, served, start


def test_it_says_where_it_is_and_leaves_no_trace_when_it_stops(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with served(tmp_path / "data") as server:
            announcement = tmp_path / "data" / "server.json"
            announced = json.loads(announcement.read_text())
            assert (announced["url"], announced["pid"]) == (server.url, server.process.pid)
            assert stat.S_IMODE(announcement.stat().st_mode) == 0o600
            assert get(f"{server.url}/health").json()["status"] == "ok"
            assert server.stop(number) == 0
            assert not announcement.exists()


def test_an_answer_waits_for_no_acknowledgement(tmp_path: Path) -> None:
    """Where the body waits until its headers are acknowledged, each answer takes 40 ms; the first few are exempt."""
    with served(tmp_path / "data") as server, httpx.Client(verify=NO_TLS) as http:
        taken = [http.get(f"{server.url}/health").elapsed.total_seconds() for _ in range(50)]
    assert min(taken[20:]) < 0.03


def test_a_port_that_is_taken_is_said_in_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotServe, match=f"Cannot serve at 127.0.0.1:{port}: Address already in use"):
            serve(tmp_path, port=port)


def test_a_port_that_is_none_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotServe, match=r"Cannot serve at 127\.0\.0\.1:99999: a port is a number up to 65535"):
        serve(tmp_path, port=99999)


def _as_file(data: Path) -> None:
    data.write_text("")


def _with_another_database(data: Path) -> None:
    data.mkdir()
    (data / "exchange.sqlite3").write_text("This is no database, but some text that is long enough." * 10)


def _of_a_later_version(data: Path) -> None:
    Store.open(data).close()
    with closing(sqlite3.connect(data / "exchange.sqlite3")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_as_file, "File exists"),
        (_with_another_database, "file is not a database"),
        (_of_a_later_version, "Can't locate revision identified by '9999'"),
    ],
)
def test_a_data_folder_that_cannot_be_used_is_said_in_one_sentence(
    tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(tmp_path / "data")
    with pytest.raises(CannotServe, match=f"Cannot keep an Exchange in .*: {why}.*--data"):
        serve(tmp_path / "data", port=0)


def test_the_data_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_data_folder({}) == Path("/home/somebody/.local/share/research-exchange")
    assert default_data_folder({"XDG_DATA_HOME": "/xdg"}) == Path("/xdg/research-exchange")
    assert default_data_folder({"RX_DATA": "/given", "XDG_DATA_HOME": "/xdg"}) == Path("/given")


def _posting(server: Served, run: NewRun, acknowledged: dict[int, bytes], files: dict[str, bytes]) -> None:
    """Post updates and files until the server is gone, and note each that was acknowledged."""
    for number in range(10_000):
        raw = scenarios.encode({"status": "running", "metrics": {"step": number}, "padding": "x" * 2000})
        content = f"file {number}".encode() * 500
        try:
            answer = post(f"{server.url}/api/runs/{run.id}/updates", run.token, raw)
            assert answer.status_code == 201, answer.text
            acknowledged[answer.json()["sequence"]] = raw
            if len(files) < 50:
                name = f"{number}.txt"
                answer = post(f"{server.url}/api/runs/{run.id}/evidence", run.token, content, name=name, kind="log")
                assert answer.status_code == 201, answer.text
                files[name] = content
        except httpx.TransportError:
            return


@pytest.mark.parametrize("seconds", [0.4, 1.1])
def test_kill_9_loses_nothing_acknowledged(tmp_path: Path, seconds: float) -> None:
    acknowledged: dict[int, bytes] = {}
    files: dict[str, bytes] = {}
    with served(tmp_path / "data") as server:
        run = new_run(server, scenarios.encode(scenarios.spec()))
        poster = threading.Thread(target=_posting, args=(server, run, acknowledged, files))
        poster.start()
        time.sleep(seconds)
        server.kill()
        poster.join()
    assert acknowledged and files

    again = start(tmp_path / "data", server.port)
    try:
        assert again.url == server.url
        path = f"{again.url}/api/runs/{run.id}"
        listed = _every_update(path)
        sequences = [update["sequence"] for update in listed]
        assert sequences == list(range(1, len(sequences) + 1))
        assert len(acknowledged) <= len(sequences) <= len(acknowledged) + 1
        hashes = {update["sequence"]: update["sha256"] for update in listed}
        assert {n: hashlib.sha256(raw).hexdigest() for n, raw in acknowledged.items()}.items() <= hashes.items()
        for name, content in files.items():
            assert get(f"{path}/evidence/{name}").content == content
        last = get(f"{path}/updates/{sequences[-1]}").content
        retried = post(f"{path}/updates", run.token, last)
        assert (retried.status_code, retried.json()["sequence"]) == (200, sequences[-1])
        following = post(f"{path}/updates", run.token, b'{"status": "running"}')
        assert (following.status_code, following.json()["sequence"]) == (201, sequences[-1] + 1)
    finally:
        again.stop()


def _every_update(path: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = []
    following: int | None = 0
    while following is not None:
        page = get(f"{path}/updates?offset={following}").json()
        listed, following = listed + page["updates"], page["next"]
    return listed


def test_two_runners_at_once_do_not_mix(tmp_path: Path) -> None:
    def report(server: Served, run: NewRun) -> list[int]:
        answers = []
        for step in range(40):
            raw = scenarios.encode({"status": "running", "metrics": {"step": step}, "run": run.id})
            answers.append(post(f"{server.url}/api/runs/{run.id}/updates", run.token, raw))
        assert {answer.status_code for answer in answers} == {201}
        return [answer.json()["sequence"] for answer in answers]

    with served(tmp_path / "data") as server:
        runs = [new_run(server, scenarios.encode(scenarios.spec())) for _ in range(2)]
        with ThreadPoolExecutor() as pool:
            posted = list(pool.map(report, [server, server], runs))
        assert posted == [list(range(1, 41))] * 2
        for run in runs:
            for number in (1, 40):
                raw = get(f"{server.url}/api/runs/{run.id}/updates/{number}").json()
                assert (raw["run"], raw["metrics"]["step"]) == (run.id, number - 1)


def test_readers_are_served_while_many_writers_wait(tmp_path: Path) -> None:
    """A writer that waits for the lock holds up other writers, and nobody else."""
    with served(tmp_path / "data") as server:
        run = new_run(server, scenarios.encode(scenarios.spec()))
        path = f"{server.url}/api/runs/{run.id}"
        with closing(sqlite3.connect(server.data / "exchange.sqlite3", isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with ThreadPoolExecutor(20) as pool:
                bodies = [scenarios.encode(scenarios.progress(n, 0.5)) for n in range(20)]
                waiting = [pool.submit(post, f"{path}/updates", run.token, body) for body in bodies]
                time.sleep(1)
                assert get(path).json()["updates"] == []
                holder.execute("COMMIT")
                answers = [future.result() for future in waiting]
        assert sorted(answer.json()["sequence"] for answer in answers) == list(range(1, 21))


def test_one_run_reported_by_two_at_once_has_no_gap(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        run = new_run(server, scenarios.encode(scenarios.spec()))

        def report(who: str) -> list[int]:
            bodies = [scenarios.encode({"status": "running", "who": who, "n": n}) for n in range(30)]
            answers = [post(f"{server.url}/api/runs/{run.id}/updates", run.token, body) for body in bodies]
            return [answer.json()["sequence"] for answer in answers]

        with ThreadPoolExecutor() as pool:
            posted = [sequence for each in pool.map(report, ("a", "b")) for sequence in each]
        assert sorted(posted) == list(range(1, 61))


def test_an_oversized_body_is_answered_over_the_wire(tmp_path: Path) -> None:
    """The refusal reaches a client that is still sending."""
    with served(tmp_path / "data") as server:
        run = new_run(server, scenarios.encode(scenarios.spec()))
        answer = post(f"{server.url}/api/runs/{run.id}/updates", run.token, b"x" * (60 * 1024 * 1024))
        assert answer.status_code == 413
        assert set(answer.json()) == {"error", "status"}
