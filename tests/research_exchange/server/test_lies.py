"""The catalogue of lies, told over HTTP: a reader sees what the rules make of them (tests/vectors/lies.json)."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from research_exchange import prediction_checks
from research_exchange.server import Door
from research_exchange.web import create_app
from tests.research_exchange.rules.lies import LIES, base_run, told
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json, Runner
from tests.research_exchange.server.serving import NO_TLS, in_thread

Lie = Mapping[str, Any]


def _one_of_each() -> list[Lie]:
    """The first lie for each who has to catch it; the rules' own tests tell all of them."""
    chosen: dict[str, Lie] = {}
    for lie in LIES:
        chosen.setdefault(lie.get("gate") or lie.get("basis") or lie["flag"], lie)
    return list(chosen.values())


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """One Exchange for all liars."""
    data = tmp_path_factory.mktemp("lies")
    app = create_app(data, door=Door(per_caller=None, per_address=None))
    with in_thread(app) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        yield Caller(http, (data / "admin-token").read_text().strip())


@pytest.fixture(autouse=True)
def _little_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lie that keeps the reader busy does so with few rows."""
    monkeypatch.setattr(prediction_checks, "MAX_ROW_VISITS", 50_000)


def tell(admin: Caller, document: Json) -> Json:
    """Post a run as its runner would, and return the Exchange's reading of it once all is said."""
    spec_id = admin.post("/api/specs", _raw(document["spec"]), legacy="true").json()["id"]
    created = admin.post("/api/runs", {"spec_id": spec_id}).json()
    runner = Runner(admin.http, created["token"], created["id"])
    session = runner.begin()
    for number, update in enumerate(document["updates"], start=1):
        files = [file for file in document["evidence"] if _comes_before(file) == number]
        runner.update(_raw(_with_files(runner, update, files)))
    for file in document["evidence"]:
        if _comes_before(file) > len(document["updates"]):
            runner.upload(file["name"], file["content"].encode(), file["kind"])
    reason = document.get("ended", "the command ended")
    runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": reason})
    judged = runner.judgment()
    assert runner.record()["recorded"]["recorded_verdict"] == judged["recorded_verdict"]
    return judged


def _comes_before(file: Json) -> int:
    """The number of the update that carries a file, or that follows it."""
    number: int = file.get("update", file.get("after", 0) + 1)
    return number


def _with_files(runner: Runner, update: Json | str, files: list[Json]) -> Json | str:
    """An update that carries these files, unless it has something of its own to say there: then they go before it."""
    if isinstance(update, str) or "evidence" in update:
        for file in files:
            runner.upload(file["name"], file["content"].encode(), file["kind"])
        return update
    carried = [{name: file[name] for name in ("name", "kind", "content")} for file in files]
    return {**update, "evidence": {"version": 1, "files": carried}} if carried else update


def _raw(document: Json | str) -> bytes:
    return document.encode() if isinstance(document, str) else scenarios.encode(document)


def _is_caught(lie: Lie, recorded: Json) -> bool:
    if "flag" in lie:
        return lie["flag"] in {flag["rule"] for flag in recorded["flags"]}
    if "basis" in lie:
        return bool(recorded["recorded_verdict"] == "inconclusive" and recorded["basis"] == lie["basis"])
    (gate,) = [gate for gate in recorded["gates"] if gate["gate"] == lie["gate"]]
    return (
        recorded["recorded_verdict"] == "inconclusive"
        and lie["gate"] in recorded["withholding_gates"]
        and lie["rule"] in {problem["rule"] for problem in gate["problems"]}
    )


def test_an_honest_run_is_believed_over_http(admin: Caller) -> None:
    judged = tell(admin, base_run("gs1"))
    assert (judged["recorded_verdict"], judged["withholding_gates"]) == ("supported", [])


def test_a_lie_is_caught_over_http_by_whoever_has_to(admin: Caller) -> None:
    missed = [lie["lie"] for lie in _one_of_each() if not _is_caught(lie, tell(admin, told(lie)))]
    assert missed == []
