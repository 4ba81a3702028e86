"""Every address of the Exchange, as the application itself lists them: none was forgotten when access was decided."""

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from research_exchange.server import Door
from research_exchange.web import create_app
from tests.research_exchange.access.test_tokens import give
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json, Runner, start_run
from tests.research_exchange.server.serving import NO_TLS, in_thread

SIGNED_BY_SLACK = ("POST", "/api/slack/events")
OPEN = {
    ("GET", "/health"),
    ("GET", "/identity"),
    ("GET", "/static/{name}"),
    ("GET", "/sign-in"),
    ("POST", "/sign-in"),
    ("GET", "/api/openapi.json"),
}
"""What nobody needs a token for, even where the door is closed."""
BARE = ("/metrics", "/attachments/")
"""What is read by programs although it is not under `/api`."""
REPORTS = ("/updates", "/evidence", "/attachments", "/sessions", "/beat", "/end")
"""What a runner reports is on record with its session, and is not logged a second time."""


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    return create_app(tmp_path_factory.mktemp("every") / "data", door=Door(open_reads=False))


@pytest.fixture(scope="module")
def admin(application: FastAPI) -> Iterator[Caller]:
    with in_thread(application) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        yield Caller(http, application.state.admin_token)


@pytest.fixture(scope="module")
def runner(admin: Caller) -> Runner:
    return start_run(admin)


def routes_of(app: FastAPI) -> set[tuple[str, str]]:
    """Method and path of every route: those of the schema, and the pages, which are not in it."""
    schema = app.openapi()["paths"]
    routers = [getattr(route, "original_router", app) for route in app.routes]
    pages = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    found = {(method.upper(), path) for path, operations in schema.items() for method in operations}
    return found | {
        (method, page.path) for page in pages if not page.include_in_schema for method in page.methods or ()
    }


class Names(dict[str, str]):
    """A value for every name that a path may have."""

    def __missing__(self, name: str) -> str:
        return "none_0000000000"


def ask(caller: Caller, method: str, path: str, run: str, content: bytes = b"{}") -> httpx.Response:
    url = path.format_map(Names(run_id=run, sequence="1", number="1"))
    headers = {"Authorization": f"Bearer {caller.token}"} if caller.token else {}
    return caller.http.request(method, url, content=content, headers=headers, follow_redirects=False)


def test_without_a_token_nothing_is_read_or_written(application: FastAPI, admin: Caller, runner: Runner) -> None:
    routes = routes_of(application)
    assert len(routes) > 40
    for method, path in sorted(routes - OPEN - {SIGNED_BY_SLACK}):
        status = ask(Caller(admin.http), method, path, runner.run).status_code
        is_html = not path.startswith("/api/") and not path.startswith(BARE) and not path.endswith(".json")
        is_page = is_html and method == "GET"
        assert status == (303 if is_page else 401), f"{method} {path}"
    assert ask(Caller(admin.http), *SIGNED_BY_SLACK, runner.run).status_code in (401, 404)


def test_a_reviewer_writes_nothing(application: FastAPI, admin: Caller, runner: Runner) -> None:
    reviewer = Caller(admin.http, give(admin, "reviewer")["token"])
    for method, path in sorted(routes_of(application) - OPEN - {SIGNED_BY_SLACK}):
        if method not in ("GET", "HEAD") and path.startswith("/api/"):
            refused = ask(reviewer, method, path, runner.run)
            assert (refused.status_code, "changes nothing" in refused.text) == (403, True), f"{method} {path}"


def test_a_runner_writes_to_its_own_run_alone(application: FastAPI, admin: Caller, runner: Runner) -> None:
    stranger = start_run(admin)
    for method, path in sorted(routes_of(application) - OPEN - {SIGNED_BY_SLACK}):
        if path.startswith("/api/") and (method != "GET" or "{run_id}" in path):
            assert ask(stranger, method, path, runner.run).status_code == 403, f"{method} {path}"


def test_nobody_but_an_administrator_reads_the_audit_log(application: FastAPI, admin: Caller, runner: Runner) -> None:
    for role in ("reviewer", "researcher"):
        caller = Caller(admin.http, give(admin, role)["token"])
        assert ask(caller, "GET", "/api/audit", runner.run).status_code == 403
        assert ask(caller, "GET", "/audit", runner.run).headers["location"].startswith("/sign-in")


def test_whatever_a_person_changes_is_logged(application: FastAPI, admin: Caller) -> None:
    """R-241. What a runner reports is on record with its session; a draft changes nothing."""
    runner, queued = start_run(admin, scenarios.spec(title="Logged")), start_run(admin)
    idea = admin.post("/api/ideas", {"title": "x"}).json()["id"]
    token = give(admin, "reviewer")["id"]
    application.state.exchange.outside.hook_secrets["RX_HOOK_TEST"] = "secret"
    hook_body = {"kind": "webhook", "url": "https://hooks.example/", "secret": "RX_HOOK_TEST"}
    hook = admin.post("/api/hooks", hook_body).json()["id"]
    spec = admin.get(runner.path).json()["spec_id"]
    admin.post("/api/runs", {"spec_id": spec, "queue": True})
    ended = runner.post(f"{runner.path}/sessions").json()["session"]
    runner.post(f"{runner.path}/sessions/{ended}/end", {"reason": "stopped"})
    changes: dict[tuple[str, str], tuple[str, Json]] = {
        ("POST", "/api/specs"): ("/api/specs", scenarios.spec(title="Logged too")),
        ("POST", "/api/ideas"): ("/api/ideas", {"title": "y"}),
        ("POST", "/api/ideas/{idea_id}/snapshots"): (f"/api/ideas/{idea}/snapshots", {"triage": "z"}),
        ("POST", "/api/runs"): ("/api/runs", {"spec_id": spec}),
        ("POST", "/api/runs/{run_id}/judgment"): (f"{runner.path}/judgment", {}),
        ("POST", "/api/runs/{run_id}/requeue"): (f"{runner.path}/requeue", {"reason": "again"}),
        ("POST", "/api/runs/{run_id}/token"): (f"{runner.path}/token", {}),
        ("POST", "/api/runs/{run_id}/cancel"): (f"{queued.path}/cancel", {"reason": "no"}),
        ("POST", "/api/queue/claim"): ("/api/queue/claim", {}),
        ("POST", "/api/tokens"): ("/api/tokens", {"role": "reviewer", "name": "x"}),
        ("DELETE", "/api/tokens/{token_id}"): (f"/api/tokens/{token}", {}),
        ("POST", "/api/hooks"): ("/api/hooks", hook_body),
        ("DELETE", "/api/hooks/{hook_id}"): (f"/api/hooks/{hook}", {}),
    }
    routes = {route for route in routes_of(application) if route[0] != "GET" and route[1].startswith("/api/")}
    changing = {route for route in routes if not route[1].endswith(REPORTS)}
    assert changing - {SIGNED_BY_SLACK, ("POST", "/api/ideas/{idea_id}/draft")} == set(changes)
    for (method, name), (path, body) in changes.items():
        before = admin.get("/api/audit").json()["total"]
        answer = ask(admin, method, path, runner.run, scenarios.encode(body))
        assert answer.status_code in (200, 201), f"{method} {name}: {answer.text}"
        assert admin.get("/api/audit").json()["total"] == before + 1, f"{method} {name}"
        assert admin.get("/api/audit").json()["audit"][0]["actor"] == "admin"
