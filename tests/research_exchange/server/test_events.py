"""Following a run by server-sent events: all that was, all that comes, nothing twice."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest

from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Json, Runner


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


def test_a_stream_tells_all_that_was_and_goes_on_from_anywhere(runner: Runner) -> None:
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


def test_what_happens_is_told_at_once(runner: Runner) -> None:
    with following(runner) as told, ThreadPoolExecutor(1) as pool:
        first = pool.submit(take, told, 1)
        time.sleep(0.3)
        assert not first.done(), "nothing has happened yet"
        runner.update(scenarios.progress(1, 0.5))
        posted = time.monotonic()
        assert first.result(timeout=10)[0].data["document"] == scenarios.progress(1, 0.5)
        assert time.monotonic() - posted < 1.5, "it was heard of by looking now and then, and not by the bell"


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
