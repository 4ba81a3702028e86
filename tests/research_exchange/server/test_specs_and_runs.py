"""Registering specs and starting runs."""

import json
import stat
from pathlib import Path

import pytest

from research_exchange.server.access import admin_token
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Runner, start_run


def test_health_needs_nothing(nobody: Caller) -> None:
    assert nobody.get("/health").json()["status"] == "ok"


def test_a_spec_comes_back_byte_for_byte(admin: Caller, nobody: Caller) -> None:
    """R-020: order and number style are part of the document."""
    raw = b'{ "title" : "Byte for byte",\n "lr": 1e-5, "zero": 0.0, "b": 1, "a": "caf\\u00e9" }\n'
    saved = admin.post("/api/specs", raw, legacy="true")
    assert saved.status_code == 201
    spec_id = saved.json()["id"]
    assert spec_id.startswith("exp_") and len(spec_id) == 14
    assert nobody.get(f"/api/specs/{spec_id}").content == raw


def test_the_same_spec_is_the_same_version_and_an_edit_is_a_new_one(admin: Caller) -> None:
    """R-002."""
    first = admin.post("/api/specs", scenarios.spec())
    again = admin.post("/api/specs", scenarios.spec())
    edited = admin.post("/api/specs", scenarios.spec(hypothesis="Training helps a lot."))
    assert (first.status_code, again.status_code, edited.status_code) == (201, 200, 201)
    assert first.json() == again.json()
    assert edited.json()["id"] != first.json()["id"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "Not JSON"),
        (b"{", "Not JSON"),
        (b"[]", "A spec is a JSON object"),
        (b'{"title": "a", "title": "b"}', "stands twice"),
        (b'{"title": ""}', "A spec has a title"),
        (b'{"title": "a", "lr": NaN}', "NaN"),
    ],
)
def test_a_spec_that_cannot_be_read_is_refused_with_the_reason(admin: Caller, raw: bytes, says: str) -> None:
    answer = admin.post("/api/specs", raw)
    assert answer.status_code == 422
    assert says in answer.json()["error"]


def test_a_run_belongs_to_its_spec_and_shows_its_token_once(admin: Caller, data: Path) -> None:
    runner = start_run(admin, launch_mode="redo")
    assert runner.token is not None
    record = runner.record()
    assert runner.run.startswith("run_") and len(runner.run) == 14
    assert (record["launch_mode"], record["title"]) == ("redo", scenarios.spec()["title"])
    assert record["recorded"] is None
    assert runner.token not in json.dumps(record)
    stored = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert runner.token.encode() not in stored


def test_unknown_launch_modes_are_refused(admin: Caller) -> None:
    """R-005."""
    spec_id = admin.post("/api/specs", scenarios.spec()).json()["id"]
    answer = admin.post("/api/runs", {"spec_id": spec_id, "launch_mode": "again"})
    assert answer.status_code == 422
    assert "launch_mode" in answer.json()["problems"][0]


def test_a_run_of_an_unknown_spec_is_refused(admin: Caller) -> None:
    answer = admin.post("/api/runs", {"spec_id": "exp_0000000000"})
    assert answer.status_code == 404
    assert "exp_0000000000" in answer.json()["error"]


def test_runs_are_listed_newest_first_in_pages(admin: Caller, nobody: Caller) -> None:
    runs = [start_run(admin).run for _ in range(3)]
    listed = nobody.get("/api/runs?limit=2").json()
    rest = nobody.get("/api/runs?limit=2&offset=2").json()
    assert [run["id"] for run in listed["runs"] + rest["runs"]] == runs[::-1]
    assert listed["total"] == 3


def test_the_admin_token_is_made_once_and_is_its_owners_alone(data: Path, admin: Caller) -> None:
    path = data / "admin-token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("rxa_")
    assert admin_token(data, {}) == admin.token


def test_the_environment_may_name_the_admin_token(tmp_path: Path) -> None:
    assert admin_token(tmp_path, {"RX_ADMIN_TOKEN": "rxa_given"}) == "rxa_given"
    assert admin_token(tmp_path, {"RX_ADMIN_TOKEN": "rxa_given\n"}) == "rxa_given"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variable", [None, "", " "])
def test_an_admin_token_that_was_lost_is_made_anew_and_never_empty(tmp_path: Path, variable: str | None) -> None:
    """With an empty one, whoever signs in without a token would be the administrator."""
    (tmp_path / "admin-token").write_text("\n")
    made = admin_token(tmp_path, {} if variable is None else {"RX_ADMIN_TOKEN": variable})
    assert made.startswith("rxa_")
    assert (tmp_path / "admin-token").read_text() == f"{made}\n"


def test_redo_runs_share_the_spec_and_nothing_else(admin: Caller, runner: Runner) -> None:
    """R-006: rows of one run never become another's."""
    runner.finish()
    again = start_run(admin, launch_mode="redo")
    assert again.record()["spec_id"] == runner.record()["spec_id"]
    assert again.record()["updates"] == []
    assert again.judgment()["recorded_verdict"] != "supported"
