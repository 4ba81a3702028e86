"""Whatever is sent to whatever address, the answer is the work or a sentence: no fault of our own, and no traceback."""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from research_exchange.web import create_app
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json, start_run
from tests.research_exchange.server.serving import NO_TLS, in_thread

BOUNDED = settings(
    max_examples=4,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[*HealthCheck],
)
"""A few examples for each address, and none of the time that making a failing one smaller would take."""

ENDLESS = "/api/runs/{run_id}/events"


@dataclass(frozen=True)
class Target:
    """An Exchange with a run, and the tokens of its administrator and of that run's runner."""

    url: str
    http: httpx.Client
    tokens: tuple[str, ...]
    names: dict[str, str]
    """What stands in the braces of a path."""
    operations: list[tuple[str, str]]
    """Methods and paths."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Target]:
    data = tmp_path_factory.mktemp("any-input")
    shutil.copy(migrated, data)
    with in_thread(create_app(data)) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        admin = Caller(http, (data / "admin-token").read_text().strip())
        runner = start_run(admin)
        session = runner.begin()
        runner.upload("a.txt", b"a", "log")
        runner.update(scenarios.progress(1, 0.5))
        names = {
            "run_id": runner.run,
            "spec_id": runner.record()["spec_id"],
            "session_id": session,
            "sequence": "1",
            "name": "a.txt",
        }
        described: Json = http.get("/api/openapi.json").json()
        operations = [(method.upper(), path) for path, found in described["paths"].items() for method in found]
        assert admin.token is not None and runner.token is not None
        yield Target(url, http, (admin.token, runner.token), names, operations)


def assert_well_said(answer: httpx.Response | Any, asked: str) -> None:
    assert answer.status_code < 500, (asked, answer.text)
    assert "Traceback" not in answer.text, asked
    if answer.status_code >= 400:
        body = answer.json()
        assert body["error"] and body["status"] == answer.status_code, (asked, body)


def test_arbitrary_bytes_to_every_address(target: Target) -> None:
    for method, path in target.operations:
        _send_anything(target, method, path)


def _send_anything(target: Target, method: str, path: str) -> None:
    @BOUNDED
    @given(
        body=st.binary(max_size=200) | st.sampled_from([b"{}", b'{"name": 1}', b"[" * 5000, b"--x\r\n\r\n--x--"]),
        media=st.sampled_from(["application/json", "multipart/form-data; boundary=x", "text/plain", "\xff"]),
        odd=st.text(max_size=20),
        is_known=st.booleans(),
        token=st.sampled_from(target.tokens),
    )
    def send(body: bytes, media: str, odd: str, is_known: bool, token: str) -> None:
        names = target.names if is_known and path != ENDLESS else {}
        filled = re.sub(r"{(\w+)}", lambda name: names.get(name[1], _segment(odd)), path)
        headers = {b"Authorization": f"Bearer {token}".encode(), b"Content-Type": media.encode("latin-1")}
        params = {"name": _segment(odd), "kind": _segment(odd)} if is_known else {}
        answer = target.http.request(method, filled, content=body, headers=headers, params=params)
        assert_well_said(answer, f"{method} {filled} {body!r} {media!r}")

    send()


def _segment(text: str) -> str:
    """One step of a path; dots and slashes would lead to another address."""
    return quote(text.encode("utf-8", "replace").strip(b"./"), safe="") or "%20"


def test_what_the_description_allows_and_forbids(target: Target) -> None:
    """Schemathesis makes requests from our own description of the API: right ones, and ones that break it."""
    headers = {"Authorization": f"Bearer {target.tokens[0]}"}
    schema = schemathesis.openapi.from_url(f"{target.url}/api/openapi.json")
    asked = 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        for mode in GenerationMode:

            @settings(BOUNDED, max_examples=2)
            @given(case=result.ok().as_strategy(generation_mode=mode))
            def ask(case: Any) -> None:
                nonlocal asked
                asked += 1
                assert_well_said(case.call(headers=headers, timeout=30), f"{case.method} {case.formatted_path}")

            with suppress(Unsatisfiable):  # nothing can be wrong about a request without parameters
                ask()
    assert asked > len(target.operations)
