"""Runs that wait: for a worker, for their time, or for a person (R-202); and runs that are called off or repeated."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from research_exchange.server.exchange import Exchange
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json, Runner, SteppingClock, start_run


def register(admin: Caller) -> str:
    spec_id: str = admin.post("/api/specs", scenarios.spec(), legacy="true").json()["id"]
    return spec_id


def queued_runs(admin: Caller, count: int) -> list[str]:
    spec_id = register(admin)
    return [admin.post("/api/runs", {"spec_id": spec_id, "queue": True}).json()["id"] for _ in range(count)]


def out_of_capacity(steps: int = 0, **changes: Any) -> Json:
    return {
        "status": "failed",
        "verdict": "inconclusive",
        "outcome_reason": "incomplete_execution",
        "summary": "The training service had no capacity.",
        "capacity_block": {"error": "503", "comparison_steps_completed": steps, "released_clients": True},
        **changes,
    }


def waiting(caller: Caller) -> Json:
    answer: Json = caller.get("/api/queue").json()
    return answer


def listed(caller: Caller, run: str) -> Json:
    rows: list[Json] = caller.get("/api/runs").json()["runs"]
    return next(row for row in rows if row["id"] == run)


def test_many_workers_at_once_never_get_the_same_run(admin: Caller) -> None:
    runs = queued_runs(admin, 6)
    with ThreadPoolExecutor(8) as pool:
        claims = [answer.json() for answer in pool.map(lambda _: admin.post("/api/queue/claim"), range(10))]
    taken = [claim for claim in claims if claim["run"] is not None]
    assert sorted(claim["run"] for claim in taken) == sorted(runs)
    assert waiting(admin)["queue"] == []
    worker = Runner(admin.http, taken[0]["token"], taken[0]["run"])
    assert worker.update(scenarios.progress(1, 0.5)).status_code == 201


def test_the_queue_says_why_each_run_waits(admin: Caller, exchange: Exchange) -> None:
    first, second, third = queued_runs(admin, 3)
    later = start_run(admin).run
    with exchange.store.writing() as writer:
        at = exchange.clock()
        writer.enqueue(later, at, "The training service had no capacity.", "exchange", at + timedelta(minutes=15))
    rows = {row["run"]: row["waits"] for row in waiting(admin)["queue"]}
    assert list(rows) == [first, second, third, later]
    assert rows[first] == "It is the next one, and no run is under way; it starts when a worker has a free slot."
    assert rows[third].startswith("2 runs are before it")
    page: Json = admin.get("/api/queue", params={"limit": 2, "offset": 1}).json()
    assert {row["run"]: row["waits"] for row in page["queue"]} == {run: rows[run] for run in (second, third)}
    assert (page["total"], page["next"]) == (4, 3)
    assert rows[later] == "Not before 2026-03-01 12:15 UTC. The training service had no capacity."
    assert listed(admin, first)["state"] == "queued"


def test_a_worker_waits_until_a_run_is_due_and_a_person_need_not(
    admin: Caller, runner: Runner, exchange: Exchange
) -> None:
    with exchange.store.writing() as writer:
        writer.enqueue(runner.run, exchange.clock(), "Later.", "exchange", exchange.clock() + timedelta(minutes=15))
    assert admin.post("/api/queue/claim").json() == {"run": None}
    assert admin.post(f"{runner.path}/requeue").status_code == 201
    assert admin.post("/api/queue/claim").json()["run"] == runner.run


def test_want_of_capacity_starts_a_run_again_by_itself_three_times(
    admin: Caller, runner: Runner, clock: SteppingClock
) -> None:
    """R-202: 15, 30 and 60 minutes; the waiting is not part of the budget of 10 minutes."""
    for minutes in (15, 30, 60):
        session = runner.begin()
        runner.update(out_of_capacity(session=session))
        runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": "the command ended"})
        (row,) = waiting(admin)["queue"]
        assert (row["by"], row["run"]) == ("exchange", runner.run)
        assert f"after {minutes} minutes" in row["reason"]
        assert admin.post("/api/queue/claim").json() == {"run": None}
        clock.jump(minutes=minutes)
        assert admin.post("/api/queue/claim").json()["run"] == runner.run
    runner.begin()
    runner.update(out_of_capacity())
    assert waiting(admin) == {"queue": [], "total": 0, "next": None, "waiting_for_a_person": []}
    refused = runner.post(f"{runner.path}/sessions")
    assert (refused.status_code, "queue it first" in refused.json()["error"]) == (409, True)
    assert len(runner.record()["sessions"]) == 4


def test_a_clock_that_was_set_back_keeps_nobody_from_a_run_that_waits(runner: Runner, clock: SteppingClock) -> None:
    """It was queued after its session began, whatever the times of the two say."""
    session = runner.begin()
    clock.jump(hours=-5)
    runner.update(out_of_capacity())
    runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": "the command ended"})
    assert runner.post(f"{runner.path}/sessions").status_code == 201


def test_a_run_that_capacity_stopped_may_still_succeed(admin: Caller, runner: Runner, clock: SteppingClock) -> None:
    runner.begin()
    runner.update(out_of_capacity())
    assert listed(admin, runner.run)["state"] == "queued"
    clock.jump(minutes=15)
    admin.post("/api/queue/claim")
    runner.begin()
    assert listed(admin, runner.run)["state"] == "running"
    assert runner.finish(150).status_code == 201
    row = listed(admin, runner.run)
    assert (row["state"], row["recorded_verdict"]) == ("finished", "supported")
    assert [outcome["cause"] for outcome in runner.record()["outcomes"]] == ["final update 1", "final update 3"]


def test_a_run_that_compared_something_waits_for_a_person(admin: Caller, runner: Runner) -> None:
    runner.begin()
    runner.update(out_of_capacity(steps=5))
    queue = waiting(admin)
    assert queue["queue"] == []
    (held,) = queue["waiting_for_a_person"]
    assert held["run"] == runner.run
    assert held["waits"].startswith("For a person to decide. It completed 5 steps")
    assert admin.post(f"{runner.path}/requeue", {"reason": "The arms start anew."}).status_code == 201
    assert waiting(admin)["waiting_for_a_person"] == []
    assert waiting(admin)["queue"][0]["reason"] == "The arms start anew."


def test_a_cancelled_run_leaves_the_queue_and_its_runner_learns_of_it(admin: Caller) -> None:
    (run,) = queued_runs(admin, 1)
    claim = admin.post("/api/queue/claim").json()
    runner = Runner(admin.http, claim["token"], run)
    session = runner.begin()
    beat = f"{runner.path}/sessions/{session}/beat"
    assert runner.post(beat).json() == {"cancelled": False, "reason": None, "ended": None}
    first = admin.post(f"{runner.path}/cancel", {"reason": "Wrong model."})
    again = admin.post(f"{runner.path}/cancel", {"reason": "Twice."})
    assert first.json() == again.json()
    assert runner.post(beat).json() == {"cancelled": True, "reason": "Wrong model.", "ended": None}
    assert runner.update(scenarios.progress(1, 0.5)).status_code == 201, "what was measured is kept"
    assert runner.post(f"{runner.path}/sessions").status_code == 409
    assert admin.post(f"{runner.path}/requeue").status_code == 409
    row = listed(admin, run)
    assert (row["state"], row["recorded_verdict"]) == ("cancelled", "inconclusive")
    assert runner.record()["cancelled"]["reason"] == "Wrong model."
    actions = [entry["action"] for entry in admin.get(f"/api/audit?subject={run}").json()["audit"]]
    assert actions.count("run.cancel") == 1 and "run.create" in actions


def test_what_ended_for_good_is_neither_cancelled_nor_queued_again(admin: Caller, runner: Runner) -> None:
    runner.begin()
    runner.finish(150)
    for action in ("cancel", "requeue"):
        answer = admin.post(f"{runner.path}/{action}")
        assert answer.status_code == 409
        assert "redo" in answer.json()["error"]
    assert runner.post(f"{runner.path}/sessions").status_code == 409


def test_a_run_that_is_worked_on_is_not_queued(admin: Caller, runner: Runner) -> None:
    runner.begin()
    assert admin.post(f"{runner.path}/requeue").status_code == 409


def test_a_redo_repeats_the_same_spec_and_is_held_against_the_first_run(admin: Caller, runner: Runner) -> None:
    """R-006."""
    runner.finish(150)
    spec_id = runner.record()["spec_id"]
    created = admin.post("/api/runs", {"spec_id": spec_id, "redo_of": runner.run}).json()
    redo = Runner(admin.http, created["token"], created["id"])
    record = redo.record()
    assert (record["launch_mode"], record["redo_of"]) == ("redo", runner.run)
    redo.finish(150)
    (agreement,) = redo.get(f"{redo.path}/agreement").json()["agreements"]
    assert agreement["standing"] == "agree"
    assert redo.get(f"{runner.path}/agreement").json()["agreements"] == []
    other = admin.post("/api/specs", scenarios.spec(title="Another"), legacy="true").json()["id"]
    refused = admin.post("/api/runs", {"spec_id": other, "redo_of": runner.run})
    assert (refused.status_code, runner.run in refused.json()["error"]) == (422, True)
    assert admin.post("/api/runs", {"spec_id": other, "redo_of": "run_0000000000"}).status_code == 404


def test_a_fresh_token_lets_somebody_resume_and_every_token_ends(
    admin: Caller, runner: Runner, clock: SteppingClock
) -> None:
    """R-241."""
    created = admin.post(f"{runner.path}/token").json()
    fresh = Runner(admin.http, created["token"], created["run"])
    assert fresh.token != runner.token
    assert [each.update(scenarios.progress(1, 0.5)).status_code for each in (runner, fresh)] == [201, 200]
    clock.jump(days=8)
    assert [each.update(scenarios.progress(2, 0.5)).status_code for each in (runner, fresh)] == [401, 401]
    assert runner.post(f"{runner.path}/token").status_code == 401


def test_runs_are_a_researchers_to_change(runner: Runner, nobody: Caller) -> None:
    for action in ("runs", "queue/claim", *(f"runs/{runner.run}/{each}" for each in ("cancel", "requeue", "token"))):
        assert nobody.post(f"/api/{action}").status_code == 401
        assert runner.post(f"/api/{action}").status_code == 403


def test_runs_are_listed_by_where_they_stand_and_by_their_spec(
    admin: Caller, runner: Runner, other_runner: Runner
) -> None:
    runner.finish(150)
    session = other_runner.begin()
    other_runner.post(f"{other_runner.path}/sessions/{session}/end", {"exit_code": 1, "reason": "crashed"})
    (waits,) = queued_runs(admin, 1)
    for state, run in (("finished", runner.run), ("partial", other_runner.run), ("queued", waits)):
        page = admin.get(f"/api/runs?state={state}").json()
        assert ([row["id"] for row in page["runs"]], page["total"], page["next"]) == ([run], 1, None)
    assert admin.get("/api/runs?state=lost").json()["runs"] == []
    assert admin.get("/api/runs?spec=exp_0000000000").json()["total"] == 0
    assert admin.get("/api/runs?limit=2").json()["next"] == 2
    assert admin.get("/api/runs?state=asleep").status_code == 422
