"""The catalogue of lies, told over HTTP: a reader sees what the rules make of them (tests/vectors/lies.json)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from research_exchange import prediction_checks
from research_exchange.server import Door
from research_exchange.web import create_app
from tests.research_exchange.rules.lies import BASES, LIES, base_run, told
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, Json, Runner
from tests.research_exchange.server.serving import NO_TLS, in_thread

Lie = Mapping[str, Any]


@dataclass(frozen=True)
class Liars:
    """All who post to one Exchange: they register a spec once, and can reach into its folder."""

    admin: Caller
    data: Path
    specs: dict[bytes, str] = field(default_factory=dict)

    def runner(self, spec: bytes) -> Runner:
        if spec not in self.specs:
            self.specs[spec] = self.admin.post("/api/specs", spec, legacy="true").json()["id"]
        created = self.admin.post("/api/runs", {"spec_id": self.specs[spec]}).json()
        return Runner(self.admin.http, created["token"], created["id"])

    def swap(self, accepted: str, content: bytes) -> None:
        """Put other bytes in the place of those that were accepted under a hash."""
        path = self.data / "blobs" / accepted[:2] / accepted[2:]
        assert path.exists(), "nothing was accepted under this hash"
        path.write_bytes(content)


@pytest.fixture(scope="module")
def liars(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Liars]:
    data = tmp_path_factory.mktemp("lies")
    app = create_app(data, door=Door(per_caller=None, per_address=None))
    with in_thread(app) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        yield Liars(Caller(http, (data / "admin-token").read_text().strip()), data)


@pytest.fixture(autouse=True)
def _little_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lie that keeps the reader busy does so with few rows."""
    monkeypatch.setattr(prediction_checks, "MAX_ROW_VISITS", 50_000)


def tell(liars: Liars, document: Json, base: str) -> Json:
    """Post a run as its runner would, and return the Exchange's reading of it once all is said.

    Args:
        liars: Whose Exchange it is told to.
        document: The run.
        base: The honest run that it was made from; it has the bytes of a file that is swapped once it is accepted.
    """
    runner = liars.runner(_raw(document["spec"]))
    session = runner.begin() if "ended" in document else None
    files: list[Json] = document["evidence"]
    for number, update in enumerate(document["updates"], start=1):
        sent = [file for file in files if _comes_with(file) == number]
        for file in sent:
            if "sha256" in file:
                _upload(runner, _file_of(base_run(base), file["name"]))
                liars.swap(file["sha256"], file["content"].encode())
        runner.update(_raw(_with_files(runner, update, [file for file in sent if "sha256" not in file])))
    for file in files:
        if _comes_with(file) > len(document["updates"]):
            _upload(runner, file)
    if session is not None:
        runner.post(f"{runner.path}/sessions/{session}/end", {"exit_code": 0, "reason": document["ended"]})
    return runner.judgment()


def _comes_with(file: Json) -> int:
    """The number of the update that carries a file, or that follows it."""
    number: int = file["after"] + 1 if "after" in file else file["update"]
    return number


def _file_of(document: Json, name: str) -> Json:
    found: Json = next(file for file in document["evidence"] if file["name"] == name)
    return found


def _upload(runner: Runner, file: Json) -> httpx.Response:
    return runner.upload(file["name"], file["content"].encode(), file["kind"])


def _with_files(runner: Runner, update: Json | str, files: list[Json]) -> Json | str:
    """An update that carries these files, unless it has something of its own to say there: then they go before it."""
    if isinstance(update, str) or "evidence" in update:
        for file in files:
            _upload(runner, file)
        return update
    carried = [{name: file[name] for name in ("name", "kind", "content")} for file in files]
    return {**update, "evidence": {"version": 1, "files": carried}} if carried else update


def _raw(document: Json | str) -> bytes:
    return document.encode() if isinstance(document, str) else scenarios.encode(document)


def _is_caught(lie: Lie, judged: Json) -> bool:
    if "flag" in lie:
        return lie["flag"] in {flag["rule"] for flag in judged["flags"]}
    if "basis" in lie:
        return bool(judged["recorded_verdict"] == "inconclusive" and judged["basis"] == lie["basis"])
    (gate,) = [gate for gate in judged["gates"] if gate["gate"] == lie["gate"]]
    return (
        judged["recorded_verdict"] == "inconclusive"
        and lie["gate"] in judged["withholding_gates"]
        and lie["rule"] in {problem["rule"] for problem in gate["problems"]}
    )


@pytest.mark.parametrize("base", BASES)
def test_an_honest_run_is_believed_over_http(liars: Liars, base: str) -> None:
    judged = tell(liars, base_run(base), base)
    assert (judged["recorded_verdict"], judged["withholding_gates"]) == ("supported", [])


def test_other_bytes_than_their_hash_are_not_taken_in(liars: Liars) -> None:
    """What keeps a swap from the wire; the catalogue's swaps happen in the folder, after the bytes were accepted."""
    runner = liars.runner(_raw(base_run("gs1")["spec"]))
    swapped = [file for lie in LIES for file in told(lie)["evidence"] if "sha256" in file]
    for file in swapped:
        refused = runner.upload(file["name"], file["content"].encode(), file["kind"], sha256=file["sha256"])
        assert (refused.status_code, "R-165" in refused.text) == (422, True), refused.text
    assert len(swapped) == 5 and runner.record()["evidence"] == []


def test_every_lie_is_caught_over_http_by_whoever_has_to(liars: Liars) -> None:
    missed = [lie["lie"] for lie in LIES if not _is_caught(lie, tell(liars, told(lie), lie["base"]))]
    assert missed == []
