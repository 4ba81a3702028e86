"""Sessions: the brief that each is given, signs of life, and what becomes of one that falls silent (R-051, R-067)."""

import hashlib
from pathlib import Path

import pytest

from research_exchange.briefs import render_brief
from research_exchange.server import sitting
from research_exchange.server.briefing import brief_input
from research_exchange.server.exchange import Exchange
from research_exchange.server.housekeeping import SILENT_AFTER, Housekeeping
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json, Runner, SteppingClock, start_run


class SteadyClock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def housekeeper(exchange: Exchange, steady: SteadyClock) -> Housekeeping:
    return Housekeeping(exchange.store, exchange.clock, exchange.recording, exchange.queue, SILENT_AFTER, steady)


def state_of(runner: Runner) -> str:
    rows: list[Json] = runner.get("/api/runs").json()["runs"]
    return next(str(row["state"]) for row in rows if row["id"] == runner.run)


def test_a_session_keeps_the_brief_that_it_was_given(runner: Runner, exchange: Exchange) -> None:
    begun = runner.post(f"{runner.path}/sessions", {"runner": "agent", "profile": "tinker"}).json()
    with exchange.store.reading() as reader:
        run = reader.run(runner.run)
        assert run is not None
        rendered = render_brief(brief_input(reader, run, "tinker")).encode()
    given = runner.get(f"{runner.path}/brief")
    assert given.content == rendered
    assert given.headers["content-type"] == "text/markdown; charset=utf-8"
    assert begun["brief_sha256"] == hashlib.sha256(rendered).hexdigest() == given.headers["etag"].strip('"')
    now = runner.get(f"{runner.path}/brief?profile=spindle")
    assert now.content != rendered and b"Spindle" in now.content
    (session,) = runner.record()["sessions"]
    assert (session["runner"], session["brief_sha256"]) == ("agent", begun["brief_sha256"])


def test_a_reason_is_kept_without_the_credential_in_it(admin: Caller, runner: Runner) -> None:
    """R-243: whoever reads the run reads why a session ended and why the run was called off."""
    secret = "ghp_" + "a1B2" * 9
    session = runner.begin()
    runner.post(f"{runner.path}/sessions/{session}/end", {"reason": f"curl said {secret}"})
    admin.post(f"{runner.path}/requeue", {"reason": f"with {secret}"})
    admin.post(f"{runner.path}/cancel", {"reason": f"because of {secret}"})
    record = runner.record()
    assert record["sessions"][0]["reason"] == "curl said [redacted]"
    assert record["queue"][0]["reason"] == "with [redacted]"
    assert record["cancelled"]["reason"] == "because of [redacted]"
    assert secret not in admin.get("/api/audit").text


def test_a_brief_is_there_before_the_first_session_and_for_known_services_alone(runner: Runner) -> None:
    assert runner.run in runner.get(f"{runner.path}/brief").text
    for answer in (
        runner.get(f"{runner.path}/brief?profile=nowhere"),
        runner.post(f"{runner.path}/sessions", {"profile": "nowhere"}),
        runner.post(f"{runner.path}/sessions", {"runner": "robot"}),
    ):
        assert answer.status_code == 422
    assert runner.record()["sessions"] == []


def test_a_run_has_so_many_sessions_and_no_more(runner: Runner, monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    monkeypatch.setattr(sitting, "MAX_SESSIONS", 2)
    session, _ = runner.begin(), runner.begin()
    kept = list((data / "blobs").rglob("*"))
    refused = runner.post(f"{runner.path}/sessions", {"profile": "tinker"})
    assert (refused.status_code, refused.json()["error"]) == (
        409,
        f"R-240: {runner.run} has 2 sessions, as many as a run may have; start a redo instead.",
    )
    assert list((data / "blobs").rglob("*")) == kept, "a brief was kept that nobody was given"
    assert len(runner.record()["sessions"]) == 2
    assert runner.post(f"{runner.path}/sessions/{session}/beat").status_code == 200
    assert runner.update(scenarios.progress(1, 0.5)).status_code == 201


def test_a_dead_runner_leaves_a_partial_result_and_no_stuck_run(runner: Runner, exchange: Exchange) -> None:
    """R-067: silence is measured from the last sign of life, be it a heartbeat or an update."""
    steady = SteadyClock()
    house = housekeeper(exchange, steady)
    session = runner.begin()
    runner.post(f"{runner.path}/sessions/{session}/beat")
    house.tend()
    steady.now = SILENT_AFTER - 1
    runner.update({"status": "running", "completed_arms": ["untrained"]})
    house.tend()
    steady.now += SILENT_AFTER - 1
    house.tend()
    assert state_of(runner) == "running"
    steady.now += 1
    house.tend()
    assert state_of(runner) == "lost"
    record = runner.record()
    assert record["recorded"]["outcome_reason"] == "incomplete_execution"
    assert record["state"]["completed_arms"] == {"untrained": 1}
    assert record["sessions"][0]["reason"].startswith("No heartbeat came for 120 seconds")
    assert "No heartbeat" in runner.post(f"{runner.path}/sessions/{session}/beat").json()["ended"]


def test_neither_a_jumping_clock_nor_a_server_that_was_down_makes_a_living_runner_look_dead(
    runner: Runner, exchange: Exchange, clock: SteppingClock
) -> None:
    steady = SteadyClock()
    session = runner.begin()
    runner.post(f"{runner.path}/sessions/{session}/beat")
    housekeeper(exchange, steady).tend()
    clock.jump(days=1)
    steady.now = 10 * SILENT_AFTER
    housekeeper(exchange, steady).tend()
    clock.jump(days=-2)
    runner.update(scenarios.progress(1, 0.5))
    assert state_of(runner) == "running"
    runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": "the command ended"})
    record = runner.record()
    assert record["sessions"][0]["ended_at"] < record["sessions"][0]["started_at"], "the clock was set back"
    assert state_of(runner) == "partial"
    assert record["recorded"]["capacity"]["requeue"] == "not_asked"


def test_a_session_that_never_gave_a_sign_of_life_is_not_watched(runner: Runner, exchange: Exchange) -> None:
    steady = SteadyClock()
    house = housekeeper(exchange, steady)
    runner.begin()
    for steady.now in (0.0, 10 * SILENT_AFTER):
        house.tend()
    assert state_of(runner) == "running"


def test_what_a_worker_took_and_never_began_is_queued_again(admin: Caller, exchange: Exchange) -> None:
    steady = SteadyClock()
    house = housekeeper(exchange, steady)
    taken, begun = start_run(admin), start_run(admin)
    late, timely = [_claimed(admin, each) for each in (taken, begun)]
    timely.begin()
    house.tend()
    steady.now = SILENT_AFTER
    house.tend()
    (row,) = admin.get("/api/queue").json()["queue"]
    assert (row["run"], row["reason"]) == (taken.run, "A worker took it and never began.")
    refused = late.post(f"{late.path}/sessions")
    assert (refused.status_code, "no good any more" in refused.json()["error"]) == (401, True)
    next_one = Runner(admin.http, admin.post("/api/queue/claim").json()["token"], taken.run)
    assert next_one.post(f"{next_one.path}/sessions").status_code == 201
    assert timely.update(scenarios.progress(1, 0.5)).status_code == taken.update(scenarios.progress(1, 0.5)).status_code


def test_a_run_that_somebody_queues_again_is_taken_from_whoever_never_began(admin: Caller, runner: Runner) -> None:
    first = _claimed(admin, runner)
    second = _claimed(admin, runner)
    assert first.post(f"{first.path}/sessions").status_code == 401
    session = second.begin()
    second.post(f"{second.path}/sessions/{session}/end", {"exit_code": 1, "reason": "crashed"})
    third = _claimed(admin, runner)
    assert second.update(scenarios.progress(1, 0.5)).status_code == 201, "what was in its spool is still taken"
    assert third.post(f"{third.path}/sessions").status_code == 201


def _claimed(admin: Caller, runner: Runner) -> Runner:
    """The worker that takes a run, which was queued for it."""
    assert admin.post(f"{runner.path}/requeue").status_code == 201
    claim = admin.post("/api/queue/claim").json()
    assert claim["run"] == runner.run
    return Runner(admin.http, claim["token"], runner.run)


def test_an_end_that_nobody_recorded_is_found_after_an_earlier_one(runner: Runner, exchange: Exchange) -> None:
    """The server died between the final update and its outcome, of a run that had a partial result already."""
    session = runner.begin()
    runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 1, "reason": "crashed"})
    with exchange.store.writing() as writer:
        writer.append_update(runner.run, scenarios.encode(scenarios.final(150)), None, exchange.clock())
    assert len(runner.record()["outcomes"]) == 1
    housekeeper(exchange, SteadyClock()).tend()
    assert [outcome["cause"] for outcome in runner.record()["outcomes"]][1:] == ["final update 1"]
