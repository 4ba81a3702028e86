"""What may go wrong: the server is killed, its disk is full, its database locked, its clock set; nothing is lost."""

import errno
import os
import resource
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from research_exchange.evidence import MAX_FILES
from research_exchange.server.exchange import Exchange
from research_exchange.server.housekeeping import Housekeeping
from research_exchange.store import FolderBlobs, StorageUnreachable
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Runner, SteppingClock
from tests.research_exchange.server.serving import get, new_run, post, served, start


class Database:
    """The database of a server, seen from outside."""

    def __init__(self, data: Path) -> None:
        self._path = data / "exchange.sqlite3"

    def count(self, table: str) -> int:
        with closing(sqlite3.connect(self._path)) as connection:
            found: int = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
            return found

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Somebody else writes and does not come to an end."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            yield
            holder.execute("ROLLBACK")


@contextmanager
def no_room(process: int) -> Iterator[None]:
    """The operating system lets a process write nothing more into any file."""
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, (hard, hard))


def test_a_server_that_is_killed_while_it_judges_records_the_outcome_when_it_is_back(tmp_path: Path) -> None:
    """The final update was stored; whether its sender was told so or not, its outcome comes, once."""
    with served(tmp_path / "data") as server:
        run = new_run(server, scenarios.encode(scenarios.spec()))
        path = f"{server.url}/api/runs/{run.id}"
        post(f"{path}/updates", run.token, scenarios.encode(scenarios.calibration()))
        post(f"{path}/evidence", run.token, scenarios.observations(150), name="observations.jsonl", kind="metrics")
        database = Database(server.data)
        final = scenarios.encode(scenarios.final(150))
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(_post_or_none, f"{path}/updates", run.token, final)
            while database.count("updates") < 2:
                time.sleep(0.001)
            server.kill()
            answer = told.result()
        was_recorded = database.count("outcomes") > 0
    again = start(tmp_path / "data")
    try:
        path = f"{again.url}/api/runs/{run.id}"
        record = get(path).json()
        assert [outcome["cause"] for outcome in record["outcomes"]] == ["final update 2"]
        assert record["recorded"]["recorded_verdict"] == "supported"
        assert not was_recorded or answer is None or answer.status_code == 201
        assert post(f"{path}/updates", run.token, final).status_code == 200
        assert len(get(path).json()["outcomes"]) == 1
    finally:
        again.stop()


def _post_or_none(url: str, token: str, content: bytes) -> httpx.Response | None:
    try:
        return post(url, token, content)
    except httpx.TransportError:
        return None


def test_a_server_that_is_killed_during_an_upload_shows_no_half_of_it(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    with served(tmp_path / "data") as server:
        run = new_run(server, scenarios.encode(scenarios.spec()))

        def half() -> Iterator[bytes]:
            yield content[: len(content) // 2]
            while not list((server.data / "blobs").glob(".incoming-*")):
                time.sleep(0.005)
            server.kill()
            yield content[len(content) // 2 :]

        url = f"{server.url}/api/runs/{run.id}/evidence?name=big.bin&kind=other"
        with pytest.raises(httpx.TransportError):
            httpx.post(url, content=half(), headers={"Authorization": f"Bearer {run.token}"}, timeout=30, verify=False)
    again = start(tmp_path / "data")
    try:
        path = f"{again.url}/api/runs/{run.id}"
        assert get(path).json()["evidence"] == []
        assert get(f"{path}/evidence/big.bin").status_code == 404
        assert post(f"{path}/evidence", run.token, content, name="big.bin", kind="other").status_code == 201
        assert get(f"{path}/evidence/big.bin").content == content
    finally:
        again.stop()


def test_a_disk_that_takes_no_more_is_said_and_everything_works_again_when_it_does(tmp_path: Path) -> None:
    with served(tmp_path / "data") as server:
        run = new_run(server, scenarios.encode(scenarios.spec()))
        path = f"{server.url}/api/runs/{run.id}"
        content = b"evidence " * 1000
        assert post(f"{path}/updates", run.token, b'{"status": "running"}').status_code == 201
        with no_room(server.process.pid):
            refused = [
                post(f"{path}/updates", run.token, scenarios.encode(scenarios.progress(1, 0.5))),
                post(f"{path}/evidence", run.token, content, name="a.txt", kind="log"),
                post(f"{path}/sessions", run.token, b""),
            ]
            for answer in refused:
                assert answer.status_code in (503, 507), answer.text
                assert answer.json()["error"].endswith("What was sent is not acknowledged; send it again later.")
            assert get(path).status_code == 200, "what is there can be read"
        record = get(path).json()
        assert (len(record["updates"]), record["evidence"], record["sessions"]) == (1, [], [])
        assert not list((server.data / "blobs").rglob(".incoming-*"))
        answer = post(f"{path}/updates", run.token, scenarios.encode(scenarios.progress(1, 0.5)))
        assert (answer.status_code, answer.json()["sequence"]) == (201, 2)
        assert post(f"{path}/evidence", run.token, content, name="a.txt", kind="log").status_code == 201
        assert get(f"{path}/evidence/a.txt").content == content


def test_a_full_disk_is_called_by_its_name(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        answer = runner.upload("a.txt", b"x", "log")
    assert (answer.status_code, "disk is full" in answer.json()["error"]) == (507, True)
    assert runner.upload("a.txt", b"x", "log").status_code == 201


def test_an_evidence_store_that_does_not_answer_costs_neither_the_final_update_nor_its_verdict(
    runner: Runner, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to know whether a file is there says nothing about the run: the outcome waits until it is known."""

    def away(*_: object) -> bytes:
        raise StorageUnreachable("The evidence store does not answer.")

    with monkeypatch.context() as patched:
        patched.setattr(FolderBlobs, "read", away)
        assert runner.finish(150).status_code == 201
        assert runner.get(f"{runner.path}/judgment").status_code == 503
        assert runner.record()["outcomes"] == []
    Housekeeping(exchange.store, exchange.clock, exchange.recording, exchange.queue).tend()
    assert runner.record()["recorded"]["recorded_verdict"] == "supported"


def test_a_database_that_somebody_locks_for_seconds_holds_up_no_reader(runner: Runner, data: Path) -> None:
    """Writers wait, their updates come in; a page that needs a judgment gets it at once."""
    runner.update(scenarios.calibration())
    with ThreadPoolExecutor(4) as pool, Database(data).locked():
        waiting = [pool.submit(runner.update, scenarios.progress(step, 0.5)) for step in range(4)]
        started = time.monotonic()
        assert runner.judgment()["through_update"] == 1
        assert runner.record()["state"]["last_update"] == 1
        assert time.monotonic() - started < 5
        time.sleep(1)
        assert not any(each.done() for each in waiting)
    assert sorted(each.result().json()["sequence"] for each in waiting) == [2, 3, 4, 5]


def test_a_clock_that_jumps_orders_nothing(runner: Runner, clock: SteppingClock) -> None:
    """What came first is first, and no time that was used is negative."""
    session = runner.begin()
    runner.update(scenarios.calibration())
    clock.jump(hours=-30)
    runner.upload("observations.jsonl", scenarios.observations(150))
    runner.update(scenarios.final(150))
    clock.jump(days=2)
    runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": "the command ended"})
    record = runner.record()
    assert [update["sequence"] for update in record["updates"]] == [1, 2]
    assert record["updates"][1]["received_at"] < record["updates"][0]["received_at"]
    assert record["recorded"]["recorded_verdict"] == "supported"
    (row,) = runner.get("/api/runs").json()["runs"]
    assert row["state"] == "finished"


def test_two_runners_share_a_run_up_to_its_64th_file(runner: Runner) -> None:
    """R-163: however they race, one of two last files is refused, and neither is half there."""
    for number in range(MAX_FILES - 1):
        runner.upload(f"{number}.txt", b"x", "log")
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda name: runner.upload(name, b"last", "log"), ("a.txt", "b.txt")))
    assert sorted(answer.status_code for answer in answers) == [201, 422]
    refused = next(answer for answer in answers if answer.status_code == 422)
    assert "R-163" in refused.json()["problems"][0]
    record = runner.record()
    assert (len(record["evidence"]), len(record["refused"])) == (MAX_FILES, 1)
