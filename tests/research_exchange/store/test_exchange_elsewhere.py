"""An Exchange whose rows are in PostgreSQL and whose evidence is in S3: its data folder can be lost."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from research_exchange.web import create_app
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.conftest import Caller, start_run
from tests.research_exchange.server.serving import NO_TLS, in_thread
from tests.services.seaweedfs import CREDENTIALS, SeaweedFS


@contextmanager
def _served(data: Path, database_url: str, evidence_url: str | None = None) -> Iterator[Caller]:
    app = create_app(data, database_url=database_url, evidence_url=evidence_url)
    with in_thread(app) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        yield Caller(http, (data / "admin-token").read_text().strip())


def test_a_run_is_judged_and_read_again_from_another_folder(
    postgresql_url: str, seaweedfs: SeaweedFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    urls = (postgresql_url, seaweedfs.url(tmp_path.name))
    with _served(tmp_path / "first", *urls) as admin:
        runner, other = start_run(admin), start_run(admin)
        with ThreadPoolExecutor(8) as pool:
            posted = list(pool.map(other.update, [scenarios.progress(step, 0.5) for step in range(40)]))
        assert sorted(answer.json()["sequence"] for answer in posted) == list(range(1, 41))
        assert runner.finish(150).status_code == 201
        recorded = runner.record()["recorded"]
        assert recorded["recorded_verdict"] == "supported"
    with _served(tmp_path / "second", *urls) as admin:
        record = admin.get(f"/api/runs/{runner.run}").json()
        assert record["recorded"] == recorded
        evidence = admin.get(f"/api/runs/{runner.run}/evidence/observations.jsonl")
        assert evidence.content == scenarios.observations(150)
        assert admin.get(f"/api/runs/{runner.run}/judgment").json() == recorded
    assert not (tmp_path / "first" / "exchange.sqlite3").exists()
    assert not (tmp_path / "first" / "blobs").exists()


def test_what_postgresql_cannot_even_be_asked_for_is_not_an_error_of_our_own(
    postgresql_url: str, tmp_path: Path
) -> None:
    with _served(tmp_path, postgresql_url) as admin:
        updates = f"{start_run(admin).path}/updates"
        asked = ("/api/runs/a%00", "/api/specs/a%00/lint", "/runs/a%00", "/?spec=a%00", f"{updates}/2147483648")
        assert {path: admin.get(path).status_code for path in asked} == dict.fromkeys(asked, 422)
        assert admin.post("/api/runs", b'{"spec_id": "\\u0000"}').status_code == 422
