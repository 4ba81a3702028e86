"""`rx doctor`: each thing that can be wrong is found, said with what to do, and nothing is changed by looking."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from research_exchange.cli import checkup
from tests.research_exchange.cli.commands import Rx
from tests.research_exchange.client.serving import ServedExchange, free_port, served_exchange


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """But a training service, where there is none: Spindle's own doctor takes seconds."""
    for name in ("RX_URL", "RX_TOKEN", "RX_ADMIN_TOKEN", "RX_DATABASE_URL", "RX_EVIDENCE_URL", "TINKER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TINKER_BASE_URL", f"http://127.0.0.1:{free_port()}")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedExchange]:
    with served_exchange(tmp_path_factory.mktemp("served")) as exchange:
        yield exchange


def found(rx: Rx, *arguments: object) -> dict[str, dict[str, Any]]:
    """Every check by its name; the code says whether one is wrong, and whatever is not well has advice."""
    answer = rx("doctor", *arguments, "--json")
    said = json.loads(answer.out)
    assert answer.code == (0 if said["ok"] else 1)
    assert said["ok"] == all(check["state"] != "wrong" for check in said["checks"])
    assert all(check["advice"] for check in said["checks"] if check["state"] != "ok")
    return {check["name"]: check for check in said["checks"]}


def test_a_new_place_is_well_and_stays_untouched(rx: Rx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINKER_BASE_URL")
    answer = rx("doctor", "--data", tmp_path / "new")
    assert f"data folder: {tmp_path / 'new'} will be made" in answer.out.replace("\n      ", "")
    assert "training service: a Spindle, which rx starts where it needs one" in answer.out
    assert "spindle: model " in answer.out
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(rx: Rx, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert found(rx, "--data", tmp_path / "file")["data folder"]["state"] == "wrong"


def test_a_token_that_others_can_read(rx: Rx, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert found(rx, "--data", tmp_path)["permissions"]["state"] == "note"
    token = tmp_path / "admin-token"
    token.write_text("rxa_secret\n")
    token.chmod(0o644)
    check = found(rx, "--data", tmp_path)["permissions"]
    assert check["state"] == "wrong"
    assert f"chmod 600 {token}" in check["advice"]
    token.chmod(0o600)
    tmp_path.chmod(0o700)
    assert found(rx, "--data", tmp_path)["permissions"]["state"] == "ok"


@pytest.mark.parametrize(("limit", "state"), [("LITTLE_SPACE", "note"), ("NO_SPACE", "wrong")])
def test_a_disk_that_runs_full(rx: Rx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, state: str) -> None:
    monkeypatch.setattr(checkup, limit, 2**60)
    assert found(rx, "--data", tmp_path)["disk"]["state"] == state


def test_a_database_that_is_damaged(rx: Rx, tmp_path: Path) -> None:
    file = tmp_path / "exchange.sqlite3"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE rows (text TEXT)")
        connection.executemany("INSERT INTO rows VALUES (?)", [("x" * 1000,)] * 100)
    connection.close()
    assert "is sound" in found(rx, "--data", tmp_path)["database"]["found"]
    content = bytearray(file.read_bytes())
    content[4096:12288] = b"\xff" * 8192
    file.write_bytes(content)
    check = found(rx, "--data", tmp_path)["database"]
    assert check["state"] == "wrong"
    assert "rx restore" in check["advice"]


def test_services_that_are_named_and_not_there(rx: Rx, tmp_path: Path) -> None:
    database = f"postgresql://rx:swordfish@127.0.0.1:{free_port()}/rx"
    said = found(
        rx,
        "--data",
        tmp_path,
        "--database-url",
        database,
        "--evidence-url",
        "s3://bucket/x?endpoint=http://127.0.0.1:1",
    )
    assert [said[name]["state"] for name in ("database", "evidence", "training service")] == ["wrong"] * 3
    assert "swordfish" not in json.dumps(said)
    nobody = found(rx, "--data", tmp_path, "--exchange", f"http://127.0.0.1:{free_port()}")
    assert nobody["exchange"]["state"] == "wrong"
    assert "rx serve" in nobody["exchange"]["advice"]


def test_a_running_exchange_says_how_it_is(rx: Rx, served: ServedExchange, monkeypatch: pytest.MonkeyPatch) -> None:
    said = found(rx, "--data", served.data)
    names = ("exchange", "database", "evidence", "clock", "token")
    assert [said[name]["state"] for name in names] == ["ok"] * 5
    assert served.admin_token not in json.dumps(said)
    monkeypatch.setenv("RX_TOKEN", "rxa_of_somebody_else")
    wrong = found(rx, "--data", served.data)["token"]
    assert (wrong["state"], "rxa_of" in json.dumps(wrong)) == ("wrong", False)


class OldExchange(BaseHTTPRequestHandler):
    """An Exchange of another version, on a machine whose clock is a minute behind, without its evidence store."""

    def do_GET(self) -> None:
        is_health = self.path == "/health"
        checks = {"database": "ok", "evidence": "does not answer"}
        health, ideas = {"version": "0.0.1", "checks": checks}, {"ideas": [], "total": 0, "next": None}
        content = json.dumps(health if is_health else ideas).encode()
        self.send_response_only(503 if is_health else 200)
        self.send_header("Date", format_datetime(datetime.now(UTC) - timedelta(minutes=1), usegmt=True))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        """Nothing, into the output of a test."""


def test_another_version_another_clock_and_a_lost_store(rx: Rx, tmp_path: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), OldExchange)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        said = found(rx, "--data", tmp_path, "--exchange", f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert said["exchange"]["state"] == "note"
    assert f"has version 0.0.1, and this is {version('research-exchange')}" in said["exchange"]["found"]
    assert (said["clock"]["state"], said["evidence"]["state"], said["database"]["state"]) == ("note", "wrong", "ok")
    assert said["token"]["state"] == "note", "none is at hand"
