"""Tokens are given out, do what their role may do, end, and are taken back (R-241)."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from research_exchange.server import Door
from research_exchange.web import create_app
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json, Runner, start_run
from tests.research_exchange.server.serving import NO_TLS, in_thread

ROLES = ("admin", "researcher", "reviewer")


class SetClock:
    """A clock that stands until it is set forward."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def set_clock() -> SetClock:
    return SetClock()


@pytest.fixture
def closed(data: Path, set_clock: SetClock) -> Iterator[Caller]:
    """The administrator of an Exchange that asks for a token to read, too."""
    app = create_app(data, clock=set_clock, door=Door(open_reads=False))
    with in_thread(app) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        yield Caller(http, (data / "admin-token").read_text().strip())


def give(admin: Caller, role: str, **more: str | int) -> Json:
    answer = admin.http.post(
        "/api/tokens",
        json={"role": role, "name": f"a {role}", **more},
        headers={"Authorization": f"Bearer {admin.token}"},
    )
    assert answer.status_code == 201, answer.text
    given: Json = answer.json()
    return given


def holder(admin: Caller, role: str, **more: str | int) -> Caller:
    return Caller(admin.http, give(admin, role, **more)["token"])


def delete(caller: Caller, path: str) -> httpx.Response:
    return caller.http.delete(path, headers={"Authorization": f"Bearer {caller.token}"})


def test_reading_takes_a_token_where_the_door_is_closed(closed: Caller) -> None:
    runner = start_run(closed)
    nobody = Caller(closed.http)
    for path in ("/api/runs", runner.path, f"{runner.path}/judgment", "/api/specs", "/api/ideas", "/api/openapi.json"):
        assert nobody.get(path).status_code == (200 if "openapi" in path else 401), path
        assert all(holder(closed, role).get(path).status_code == 200 for role in ROLES), path
    assert nobody.get("/health").status_code == 200


def test_pages_lead_to_the_sign_in_where_the_door_is_closed(closed: Caller) -> None:
    page = closed.http.get("/?offset=50", follow_redirects=False)
    assert (page.status_code, page.headers["location"]) == (303, "/sign-in?next=%2F%3Foffset%3D50")
    assert closed.http.get("/runs/run_0000000000.json").status_code == 401
    assert closed.http.get("/static/style.css").status_code == 200


def test_a_runner_reads_its_own_run_and_that_runs_spec_alone(closed: Caller) -> None:
    runner, other = start_run(closed), start_run(closed, scenarios.spec(title="Other"))
    spec, other_spec = (closed.get(each.path).json()["spec_id"] for each in (runner, other))
    for path in (runner.path, f"{runner.path}/judgment", f"/api/specs/{spec}", f"/api/specs/{spec}/brief"):
        assert runner.get(path).status_code == 200, path
    for path in (other.path, "/api/runs", "/api/specs", f"/api/specs/{other_spec}", "/api/ideas", "/api/tokens"):
        assert runner.get(path).status_code == 403, path


def test_a_runner_learns_of_no_other_run_by_the_way_of_its_own(closed: Caller) -> None:
    """R-241. What holds its run against another, or lists the runs of its spec, would tell it their verdicts."""
    runner, earlier, other = start_run(closed), start_run(closed), start_run(closed, scenarios.spec(title="Other"))
    spec, other_spec = (closed.get(each.path).json()["spec_id"] for each in (runner, other))
    assert runner.get(f"/api/specs/{spec}/brief", params={"run": runner.run}).status_code == 200
    for path in (
        f"{runner.path}/agreement",
        f"{runner.path}/agreement?against={earlier.run}",
        f"/api/specs/{spec}/brief?run={earlier.run}",
        f"/api/specs/{spec}/diff?against={other_spec}",
        f"/api/runs?spec={spec}",
        f"/api/tokens?run={runner.run}",
        f"/runs/{runner.run}/against/{earlier.run}",
        f"/runs/{runner.run}/against/{earlier.run}.json",
        f"/specs/{spec}",
        f"/specs/{spec}.json",
    ):
        assert runner.get(path).status_code == 403, path
        assert "/tokens" in path or holder(closed, "reviewer").get(path).status_code == 200, path


def test_each_role_writes_what_it_may(admin: Caller) -> None:
    spec_id = admin.post("/api/specs", scenarios.spec()).json()["id"]
    writes: list[tuple[str, Json, dict[str, int]]] = [
        ("/api/ideas", {"title": "x"}, {"admin": 201, "researcher": 201, "reviewer": 403}),
        ("/api/specs", scenarios.spec(), {"admin": 200, "researcher": 200, "reviewer": 403}),
        ("/api/runs", {"spec_id": spec_id}, {"admin": 201, "researcher": 201, "reviewer": 403}),
        ("/api/tokens", {"role": "reviewer", "name": "x"}, {"admin": 201, "researcher": 403, "reviewer": 403}),
    ]
    callers = {role: holder(admin, role) for role in ROLES}
    for path, body, expected in writes:
        assert {role: callers[role].post(path, body).status_code for role in ROLES} == expected, path
    for path in ("/api/tokens", "/api/audit"):
        seen = {role: callers[role].get(path).status_code for role in ROLES}
        assert seen == {"admin": 200, "researcher": 403, "reviewer": 403}, path


def test_a_runners_token_of_ones_own_reports_to_its_run(admin: Caller, runner: Runner) -> None:
    second = Runner(admin.http, give(admin, "runner", run=runner.run)["token"], runner.run)
    assert second.update(scenarios.progress(1, 0.5)).status_code == 201
    assert start_run(admin).update(scenarios.progress(1, 0.5)).status_code == 201
    assert Runner(admin.http, second.token, start_run(admin).run).update(scenarios.progress(1, 0.5)).status_code == 403


@pytest.mark.parametrize(
    "body",
    [
        {"role": "runner", "name": "x"},
        {"role": "runner", "name": "x", "run": "run_0000000000"},
        {"role": "admin", "name": "x", "run": "RUN"},
        {"role": "owner", "name": "x"},
        {"role": "admin", "name": ""},
        {"role": "admin", "name": "   "},
        {"role": "admin", "name": "x", "days": 0},
        {"role": "admin", "name": "x", "days": 4000},
    ],
)
def test_a_token_that_cannot_be_is_not_given(shared_admin: Caller, body: Json) -> None:
    run = start_run(shared_admin).run if body.get("run") == "RUN" else body.get("run")
    answer = shared_admin.post("/api/tokens", {**body, "run": run})
    assert answer.status_code in (404, 422)
    assert {each["role"] for each in shared_admin.get("/api/tokens").json()["tokens"]} <= {"runner"}


def test_a_token_ends_in_time_and_the_refusal_says_so(closed: Caller, set_clock: SetClock) -> None:
    reviewer, runner = holder(closed, "reviewer", days=1), start_run(closed)
    weekly = Runner(closed.http, give(closed, "runner", run=runner.run)["token"], runner.run)
    set_clock.now += timedelta(hours=23)
    assert reviewer.get("/api/runs").status_code == 200
    set_clock.now += timedelta(hours=2)
    refused = reviewer.get("/api/runs")
    assert (refused.status_code, "it ended at 2026-03-02 12:00 UTC" in refused.json()["error"]) == (401, True)
    assert weekly.get(runner.path).status_code == 200
    set_clock.now += timedelta(days=6)
    assert weekly.update({}).status_code == 401


def test_a_revoked_token_is_no_good_from_then_on(closed: Caller) -> None:
    given = give(closed, "researcher")
    researcher = Caller(closed.http, given["token"])
    assert delete(researcher, f"/api/tokens/{given['id']}").status_code == 403
    assert delete(closed, f"/api/tokens/{given['id']}").json()["revoked_at"] == "2026-03-01T12:00:00.000Z"
    refused = researcher.get("/api/runs")
    assert (refused.status_code, "it was revoked at" in refused.json()["error"]) == (401, True)
    assert delete(closed, "/api/tokens/tok_0000000000").status_code == 404


def test_no_secret_is_kept_shown_again_or_logged(
    closed: Caller, data: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secrets = [give(closed, role)["token"] for role in ROLES]
    for secret in secrets:
        Caller(closed.http, secret).get("/api/runs")
        Caller(closed.http, secret).post("/api/runs", b"{")
    shown = json.dumps([closed.get(path).json() for path in ("/api/tokens", "/api/audit")])
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file()).decode("latin-1")
    printed = "".join(capfd.readouterr())
    for secret in secrets:
        assert all(secret not in text for text in (shown, kept, caplog.text, printed))


def test_who_did_what_is_on_record(admin: Caller) -> None:
    given = give(admin, "researcher")
    researcher = Caller(admin.http, given["token"])
    idea = researcher.post("/api/ideas", {"title": "x"}).json()["id"]
    researcher.post(f"/api/ideas/{idea}/snapshots", {"triage": "y"})
    spec = researcher.post("/api/specs", scenarios.spec(), idea=idea).json()["id"]
    run = researcher.post("/api/runs", {"spec_id": spec}).json()["id"]
    delete(admin, f"/api/tokens/{given['id']}")
    page = admin.get("/api/audit", params={"limit": 4}).json()
    rest = admin.get("/api/audit", params={"offset": page["next"]}).json()["audit"]
    entries = [(each["actor"], each["action"], each["subject"]) for each in reversed(page["audit"] + rest)]
    actor = given["id"]
    assert entries == [
        ("admin", "token.give", actor),
        (actor, "idea.add", idea),
        (actor, "idea.revise", idea),
        (actor, "spec.add", spec),
        (actor, "run.create", run),
        ("admin", "token.revoke", actor),
    ]
    assert [each["action"] for each in admin.get("/api/audit", params={"subject": spec}).json()["audit"]] == [
        "spec.add"
    ]


def test_a_stream_ends_with_its_token(closed: Caller) -> None:
    runner, given = start_run(closed), give(closed, "reviewer")
    headers = {"Authorization": f"Bearer {given['token']}"}
    with closed.http.stream("GET", f"{runner.path}/events", headers=headers) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("retry")
        assert delete(closed, f"/api/tokens/{given['id']}").status_code == 200
        runner.update(scenarios.progress(1, 0.5))
        assert "data" not in "".join(lines)


def test_a_stream_ends_with_its_token_also_where_nothing_happens(closed: Caller) -> None:
    runner, given = start_run(closed), give(closed, "reviewer")
    headers = {"Authorization": f"Bearer {given['token']}"}
    with closed.http.stream("GET", f"{runner.path}/events", headers=headers) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert delete(closed, f"/api/tokens/{given['id']}").status_code == 200
        assert not any(line.startswith(":") for line in lines), "it went on for longer than a look takes"
