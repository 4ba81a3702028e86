"""Following a run by server-sent events: all that was, all that comes, nothing twice."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from research_exchange.server import application
from research_exchange.server.events import reached
from research_exchange.server.exchange import Exchange
from research_exchange.server.lookout import LOOK_EVERY
from research_exchange.server.routes import events as route
from research_exchange.store import Store
from research_exchange.web import create_app
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json, Runner, start_run
from tests.research_exchange.server.serving import NO_TLS, in_thread, served


@dataclass(frozen=True)
class Told:
    id: str
    kind: str
    data: Json


@contextmanager
def following(runner: Runner, since: str | None = None) -> Iterator[Iterator[Told]]:
    headers = {} if since is None else {"Last-Event-ID": since}
    with runner.http.stream("GET", f"{runner.path}/events", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _told(answer)


def _told(answer: httpx.Response) -> Iterator[Told]:
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif "data" in fields:
            yield Told(fields["id"], fields["event"], json.loads(fields["data"]))
            fields = {}


def take(told: Iterator[Told], count: int) -> list[Told]:
    return [next(told) for _ in range(count)]


def test_a_stream_tells_all_that_was_and_goes_on_from_anywhere(runner: Runner, exchange: Exchange) -> None:
    session = runner.begin()
    runner.finish(150)
    runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": "the command ended"})
    with following(runner) as told:
        events = take(told, 6)
    assert [event.kind for event in events] == ["session", "update", "update", "evidence", "session_end", "outcome"]
    assert events[1].data["document"] == scenarios.calibration()
    assert events[-1].data["recorded_verdict"] == "supported"
    for number, event in enumerate(events[:-1], start=1):
        with following(runner, event.id) as told:
            assert take(told, 6 - number) == events[number:]
    assert events[-1].id == come_to(exchange, runner)


def test_what_becomes_of_a_run_that_waits_is_told_too(admin: Caller, runner: Runner, exchange: Exchange) -> None:
    admin.post(f"{runner.path}/requeue")
    admin.post(f"{runner.path}/cancel", {"reason": "It was wrong."})
    with following(runner) as told:
        events = take(told, 3)
    assert [event.kind for event in events] == ["queued", "cancelled", "outcome"]
    assert events[-1].id == come_to(exchange, runner)


def come_to(exchange: Exchange, runner: Runner) -> str:
    """Where a look at the store finds the run."""
    with exchange.store.reading() as reader:
        return str(reached(reader, runner.run))


def test_what_happens_is_told_at_once(runner: Runner) -> None:
    with following(runner) as told, ThreadPoolExecutor(1) as pool:
        first = pool.submit(take, told, 1)
        time.sleep(0.3)
        assert not first.done(), "nothing has happened yet"
        runner.update(scenarios.progress(1, 0.5))
        posted = time.monotonic()
        assert first.result(timeout=10)[0].data["document"] == scenarios.progress(1, 0.5)
        assert time.monotonic() - posted < 1.5, "it was heard of by looking now and then, and not by the bell"


@contextmanager
def serving(data: Path) -> Iterator[Runner]:
    """An Exchange in this process, with the runner of a run."""
    with in_thread(create_app(data)) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        yield start_run(Caller(http, (data / "admin-token").read_text().strip()))


def test_what_another_server_wrote_is_told_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "STILL_HERE_EVERY", 3 * LOOK_EVERY)
    with serving(tmp_path) as runner, served(tmp_path) as other:
        elsewhere = Runner(httpx.Client(base_url=other.url, verify=NO_TLS), runner.token, runner.run)
        with elsewhere.http, runner.http.stream("GET", f"{runner.path}/events") as answer:
            lines = answer.iter_lines()
            for number in (1, 2):
                assert elsewhere.update(scenarios.progress(number, 0.5)).status_code == 201
                heard = next(line for line in lines if line.startswith(("event", ":")))
                assert heard == "event: update", "nothing was heard of what another server wrote"


def test_the_store_is_looked_at_once_however_many_watch_and_they_hear_that_they_are_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "LOOK_EVERY", 0.1)
    monkeypatch.setattr(route, "STILL_HERE_EVERY", 0.5)
    looks = Looks(monkeypatch)
    told: list[Iterator[str]] = []
    with serving(tmp_path) as runner, ExitStack() as stack:
        for watchers in (1, 11):
            for _ in range(watchers):
                answer = stack.enter_context(runner.http.stream("GET", f"{runner.path}/events"))
                told.append(answer.iter_lines())
                assert next(told[-1]).startswith("retry")
            time.sleep(0.5)
            assert 2 <= looks.within(1.0) <= 12, "one look every tenth of a second, for all who watch"
            assert ": still here" in told[-1]


class Looks:
    """Counts how often the store is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        reading = Store.reading

        def counted(store: Store) -> Any:
            self.count += 1
            return reading(store)

        monkeypatch.setattr(Store, "reading", counted)

    def within(self, seconds: float) -> int:
        before = self.count
        time.sleep(seconds)
        return self.count - before


def test_a_sign_of_life_wakes_nobody(runner: Runner, exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[str] = []
    monkeypatch.setattr(exchange.bell, "ring", rung.append)
    session = runner.begin()
    for _ in range(3):
        runner.post(f"{runner.path}/sessions/{session}/beat")
    runner.update(scenarios.progress(1, 0.5))
    runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": "It ended."})
    deadline = time.monotonic() + 10
    while len(rung) < 3:  # it rings when the answer has gone out
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert rung == [runner.run] * 3


def test_a_malformed_and_a_large_update_are_announced_without_their_document(runner: Runner) -> None:
    runner.update(b"{")
    runner.update({"status": "running", "note": "x" * 70_000})
    with following(runner) as told:
        malformed, large = take(told, 2)
    assert malformed.data["document"] is None and "Not JSON" in malformed.data["malformed"]
    assert large.data["document"] is None and "malformed" not in large.data


@pytest.mark.parametrize("since", ["1", "1-2-3-4-5-6-x", "-1-0-0-0-0-0-0", "9" * 40])
def test_a_position_that_no_stream_gave_out_is_refused(runner: Runner, since: str) -> None:
    answer = runner.http.get(f"{runner.path}/events", headers={"Last-Event-ID": since})
    assert answer.status_code == 422
    assert runner.http.get("/api/runs/run_0000000000/events").status_code == 404
