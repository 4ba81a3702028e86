"""Who may do what (R-241), and the one shape of every refusal."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from research_exchange.server.exchange import Exchange
from research_exchange.store import engines
from research_exchange.web import create_app
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Runner, start_run
from tests.research_exchange.server.serving import NO_TLS, in_thread

WRITES_TO_A_RUN = ("/updates", "/evidence?name=a&kind=log", "/sessions", "/sessions/ses_0/end", "/judgment")


@pytest.mark.parametrize("path", ["/api/specs", "/api/runs"])
def test_specs_and_runs_take_the_admin_token(nobody: Caller, runner: Runner, path: str) -> None:
    assert nobody.post(path, b"{}").status_code == 401
    assert runner.post(path, b"{}").status_code == 403


@pytest.mark.parametrize("action", WRITES_TO_A_RUN)
def test_a_run_is_written_by_its_own_runner_alone(
    nobody: Caller, runner: Runner, other_runner: Runner, action: str
) -> None:
    assert nobody.post(runner.path + action, b"{}").status_code == 401
    assert Caller(nobody.http, "rxr_made-up").post(runner.path + action, b"{}").status_code == 401
    assert other_runner.post(runner.path + action, b"{}").status_code == 403
    record = runner.record()
    assert (record["updates"], record["evidence"], record["sessions"], record["outcomes"]) == ([], [], [], [])


def test_the_administrator_does_not_report_for_a_runner(admin: Caller, runner: Runner) -> None:
    assert admin.post(f"{runner.path}/updates", b"{}").status_code == 403
    assert admin.post(f"{runner.path}/judgment").status_code == 200


@pytest.mark.parametrize("action", WRITES_TO_A_RUN)
def test_an_unknown_run_is_not_found(runner: Runner, action: str) -> None:
    answer = runner.post(f"/api/runs/run_0000000000{action}", b"{}")
    assert answer.status_code == 404
    assert "run_0000000000" in answer.json()["error"]


@pytest.mark.parametrize("header", ["", "Bearer", "Basic abc", "rxa_token", "Bearer rxa_täuschung"])
def test_a_header_that_carries_no_known_token_is_refused(nobody: Caller, header: str) -> None:
    answer = nobody.http.post("/api/specs", content=b"{}", headers={b"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_is_asked_for_before_a_body_is_judged(nobody: Caller, runner: Runner) -> None:
    assert nobody.post(f"{runner.path}/updates", b"not json").status_code == 401
    assert nobody.post("/api/specs", b"x" * (5 * 1024 * 1024)).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/nothing", 404),
        ("GET", "/api/runs/run_0000000000", 404),
        ("GET", "/api/runs/run_0000000000/judgment", 404),
        ("GET", "/api/runs/run_0000000000/updates/1", 404),
        ("GET", "/api/runs/run_0000000000/updates/one", 422),
        ("GET", "/api/runs/run_0000000000/evidence/a", 404),
        ("GET", "/api/specs/exp_0000000000", 404),
        ("GET", "/api/runs?limit=0", 422),
        ("GET", "/api/runs?limit=1000", 422),
        ("GET", "/api/runs?offset=-1", 422),
        ("DELETE", "/api/runs", 405),
        ("PUT", "/api/specs/exp_0000000000", 405),
        ("POST", "/api/specs", 401),
        ("GET", "/runs/run_0000000000.json", 404),
    ],
)
def test_every_refusal_has_one_shape(nobody: Caller, method: str, path: str, status: int) -> None:
    answer = nobody.http.request(method, path)
    assert answer.status_code == status
    body = answer.json()
    assert set(body) <= {"error", "status", "problems"}
    assert body["status"] == status
    assert isinstance(body["error"], str) and body["error"].endswith(".")
    assert all(isinstance(problem, str) for problem in body.get("problems", []))
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_error_of_our_own_has_that_shape_too(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(Exchange, "view", broken)
    answer = runner.get(runner.path)
    assert answer.status_code == 500
    assert set(answer.json()) == {"error", "status"}
    assert "secret detail" not in answer.text


def test_a_database_that_stays_locked_is_said_to_be_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BUSY_TIMEOUT_MS", 100)
    with in_thread(create_app(tmp_path)) as url, httpx.Client(base_url=url, verify=NO_TLS) as http:
        runner = start_run(Caller(http, (tmp_path / "admin-token").read_text().strip()))
        with closing(sqlite3.connect(tmp_path / "exchange.sqlite3", isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            answer = runner.update(scenarios.progress(1, 0.5))
            holder.execute("ROLLBACK")
        assert answer.status_code == 503
        assert "send it again" in answer.json()["error"]
        assert runner.update(scenarios.progress(1, 0.5)).json()["sequence"] == 1
