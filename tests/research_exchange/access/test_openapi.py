"""The API's description names the form of every body, the token, and the one shape of every refusal."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from research_exchange.web import create_app
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, start_run

WITHOUT_A_BODY = {
    "/api/ideas/{idea_id}/draft",
    "/api/queue/claim",
    "/api/runs/{run_id}/judgment",
    "/api/runs/{run_id}/sessions/{session_id}/beat",
    "/api/runs/{run_id}/token",
}


@pytest.fixture
def described(data: Path) -> dict[str, Any]:
    app = create_app(data)
    assert app.openapi() is app.openapi()
    found: dict[str, Any] = app.openapi()
    return found


def operations(described: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    paths = described["paths"]
    return [(method, path, each) for path in paths for method, each in paths[path].items()]


def test_every_body_has_a_form(described: dict[str, Any]) -> None:
    posts = {path: each for method, path, each in operations(described) if method == "post"}
    assert {path for path, each in posts.items() if "requestBody" not in each} == WITHOUT_A_BODY
    forms = described["components"]["schemas"]
    assert forms["NewRun"]["required"] == ["spec_id"]
    assert forms["NewIdea"]["properties"]["title"]["maxLength"] == 300
    assert posts["/api/runs"]["requestBody"]["required"]
    assert not posts["/api/runs/{run_id}/cancel"]["requestBody"]["required"]
    assert set(posts["/api/runs/{run_id}/evidence"]["requestBody"]["content"]) == {
        "application/octet-stream",
        "multipart/form-data",
        "application/json",
    }


def test_every_refusal_and_every_token_is_described_once(described: dict[str, Any]) -> None:
    for method, path, each in operations(described):
        assert each["responses"]["4XX"] == {"$ref": "#/components/responses/Refused"}, f"{method} {path}"
        assert "422" not in each["responses"]
        takes_token = path.startswith("/api/") and path != "/api/slack/events"
        assert ("security" in each) is takes_token, f"{method} {path}"
        assert each.get("description") or each.get("summary")


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    def references(value: object) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [found for inner in value.values() for found in references(inner)]
        return [found for inner in value for found in references(inner)] if isinstance(value, list) else []

    for reference in references(described):
        target: Any = described
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]
        assert target


def test_examples_of_answers_have_the_fields_of_answers(app: FastAPI, admin: Caller) -> None:
    idea = admin.post("/api/ideas", {"title": "x"}).json()["id"]
    first = admin.post("/api/specs", scenarios.spec(), idea=idea).json()["id"]
    second = admin.post("/api/specs", scenarios.spec(title="y"), parent=first).json()["id"]
    admin.post("/api/tokens", {"role": "reviewer", "name": "x"})
    tags = {"ideas", "specs", "tokens", "hooks"}
    for method, path, each in operations(app.openapi()):
        if method == "get" and set(each["tags"]) & tags and "{hook_id}" not in path:
            answer = admin.get(path.format_map({"idea_id": idea, "spec_id": second})).json()
            example = each["responses"]["200"]["content"]["application/json"].get("example", answer)
            assert fits(example, answer), path
            for name, rows in example.items():
                if isinstance(rows, list) and rows and isinstance(rows[0], dict) and answer[name]:
                    assert fits(rows[0], answer[name][0]), f"{path} {name}"


def test_every_list_comes_in_pages(app: FastAPI, admin: Caller) -> None:
    app.state.exchange.outside.hook_secrets["RX_HOOK_TEST"] = "secret"
    often_said = admin.post("/api/ideas", {"title": "often said"}).json()["id"]
    for number in range(2):
        admin.post(f"/api/ideas/{often_said}/snapshots", {"title": f"said {number}"})
        idea = admin.post("/api/ideas", {"title": f"{number}"}).json()["id"]
        spec = admin.post("/api/specs", scenarios.spec(title=f"{number}"), idea=idea).json()["id"]
        admin.post("/api/runs", {"spec_id": spec, "queue": True})
        hook = {"kind": "webhook", "url": f"https://hooks.example/{number}", "secret": "RX_HOOK_TEST"}
        assert admin.post("/api/hooks", hook).status_code == 201
    runner = start_run(admin)
    for step in range(2):
        assert runner.update(scenarios.progress(step, 0.5)).status_code == 201
    found = operations(app.openapi())
    lists = {path for method, path, said in found if method == "get" and '"total"' in json.dumps(said)}
    assert lists >= {f"/api/{name}" for name in ("ideas", "specs", "runs", "queue", "tokens", "hooks", "audit")}
    assert lists >= {"/api/runs/{run_id}/updates", "/api/ideas/{idea_id}/snapshots"}
    for each in lists - {"/api/hooks/{hook_id}/deliveries"}:
        path = each.format_map({"run_id": runner.run, "idea_id": often_said})
        (name,) = [name for name, value in admin.get(path).json().items() if isinstance(value, list) and value]
        whole, first = admin.get(path).json(), admin.get(path, params={"limit": 1}).json()
        second = admin.get(path, params={"limit": 1, "offset": first["next"]}).json()
        assert first[name] + second[name] == whole[name][:2], path
        assert (first["total"], first["next"]) == (whole["total"], 1), path


def fits(example: dict[str, Any], answer: dict[str, Any]) -> bool:
    """Whether an example has the fields of an answer; FastAPI leaves out of an example what is null in it."""
    return {name for name, value in answer.items() if value is not None} <= set(example) <= set(answer)
