"""Versions are linted before they are saved, and read back in every way (R-002, R-022, R-026)."""

import json
from pathlib import Path

import pytest

from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Runner, start_run

SEEDS = Path(__file__).parents[4] / "shared" / "seeds"


def test_a_new_version_with_lint_errors_is_refused_with_each_of_them(admin: Caller) -> None:
    refused = admin.post("/api/specs", scenarios.spec(method="", budget={}))
    assert refused.status_code == 422
    named = [problem.partition(":")[0] for problem in refused.json()["problems"]]
    assert named == ["error R-030 method", "error R-030 budget.gpu_hours", "error R-030 budget.max_wall_minutes"]
    assert admin.get("/api/specs").json() == {"specs": [], "total": 0, "next": None}


def test_a_legacy_spec_is_saved_where_somebody_says_so_and_it_is_logged(admin: Caller) -> None:
    """R-026."""
    old = admin.post("/api/specs", {"title": "From before"}, legacy="true")
    assert old.status_code == 201
    assert any(finding["level"] == "error" for finding in old.json()["lint"])
    logged = admin.get("/api/audit").json()["audit"][0]
    assert (logged["action"], logged["actor"], logged["subject"]) == ("spec.legacy", "admin", old.json()["id"])
    assert admin.post("/api/specs", {"title": "From before"}).json()["id"] == old.json()["id"]


@pytest.mark.parametrize("name", ["score_centering", "gs1_vs_grpo"])
def test_a_seed_is_refused_as_a_new_spec_and_saved_as_a_legacy_one(admin: Caller, name: str) -> None:
    if not SEEDS.exists():
        pytest.skip("the seeds are not beside this repository")
    raw = (SEEDS / f"{name}.spec.json").read_bytes()
    assert admin.post("/api/specs", raw).status_code == 422
    saved = admin.post("/api/specs", raw, legacy="true").json()
    assert admin.get(f"/api/specs/{saved['id']}").content == raw
    assert saved["id"] in admin.get(f"/api/specs/{saved['id']}/brief").json()["brief"]


def test_a_spec_that_holds_a_secret_is_not_saved(admin: Caller) -> None:
    secret = "ghp_" + "a1B2" * 9
    refused = admin.post("/api/specs", scenarios.spec(method=f"Use {secret}"), legacy="true")
    assert refused.status_code == 422
    assert "a GitHub token" in refused.json()["error"]
    assert secret not in refused.text


def test_lint_and_power_of_a_version_are_those_of_its_bytes(admin: Caller) -> None:
    saved = admin.post("/api/specs", scenarios.spec()).json()
    assert admin.get(f"/api/specs/{saved['id']}/lint").json()["findings"] == saved["lint"]
    card = admin.get(f"/api/specs/{saved['id']}/power", params={"items": 200}).json()
    assert [each["id"] for each in card["criteria"]] == ["primary_gain"]
    assert admin.get(f"/api/specs/{saved['id']}/power", params={"items": 0}).status_code == 422


def test_a_difference_is_to_the_parent_or_to_whatever_is_named(admin: Caller) -> None:
    first = admin.post("/api/specs", scenarios.spec()).json()["id"]
    second = admin.post("/api/specs", scenarios.spec(method="Train both."), parent=first).json()["id"]
    to_parent = admin.get(f"/api/specs/{second}/diff").json()
    assert (to_parent["before"], to_parent["after"]) == (first, second)
    assert [change["path"] for change in to_parent["changes"]] == ["method"]
    assert (
        admin.get(f"/api/specs/{first}/diff", params={"against": second}).json()["changes"][0]["after"] != "Train both."
    )
    assert admin.get(f"/api/specs/{first}/diff").status_code == 422
    assert admin.get(f"/api/specs/{first}/diff", params={"against": "exp_0000000000"}).status_code == 404


def test_the_brief_of_a_run_names_it_and_that_of_another_spec_does_not_exist(admin: Caller, runner: Runner) -> None:
    spec_id = runner.record()["spec_id"]
    brief = admin.get(f"/api/specs/{spec_id}/brief", params={"run": runner.run}).json()
    assert runner.run in brief["brief"]
    assert admin.get(f"/api/specs/{spec_id}/brief").json()["run"] is None
    other = start_run(admin, scenarios.spec(title="Another"))
    assert admin.get(f"/api/specs/{spec_id}/brief", params={"run": other.run}).status_code == 404
    assert admin.get(f"/api/specs/{spec_id}/brief", params={"profile": "nobody's"}).status_code == 422


def test_a_brief_shows_the_feasibility_check_that_its_spec_does_not_hold(admin: Caller) -> None:
    """R-022: computed, appended to the rendering, and no part of the document."""
    saved = admin.post("/api/specs", scenarios.spec(feasibility_required=True, feasibility=None), legacy="true").json()
    brief = admin.get(f"/api/specs/{saved['id']}/brief").json()["brief"]
    assert '"feasibility_check"' in brief
    assert "feasibility_check" not in json.loads(admin.get(f"/api/specs/{saved['id']}").content)


def test_the_parent_of_bytes_that_are_known_stays_what_it_was(admin: Caller) -> None:
    first = admin.post("/api/specs", scenarios.spec()).json()
    other = admin.post("/api/specs", scenarios.spec(title="Other")).json()
    again = admin.post("/api/specs", scenarios.spec(), parent=other["id"])
    assert again.status_code == 200
    assert again.json() == first


@pytest.mark.parametrize("origin", [{"idea": "idea_0000000000"}, {"parent": "exp_0000000000"}])
def test_an_origin_that_nobody_knows_is_refused_for_known_bytes_as_well(admin: Caller, origin: dict[str, str]) -> None:
    for known in (False, True):
        assert admin.post("/api/specs", scenarios.spec(), **origin).status_code == 404
        if not known:
            assert admin.post("/api/specs", scenarios.spec()).status_code == 201
