import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from research_exchange.server.exchange import Exchange
from research_exchange.store import Store
from research_exchange.web import create_app
from tests.research_exchange.server import scenarios
from tests.research_exchange.server.serving import NO_TLS, in_thread

Json = dict[str, Any]


@dataclass(frozen=True)
class Caller:
    """Somebody with a token, or nobody."""

    http: httpx.Client
    token: str | None = None

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.http.get(path, headers=self._headers(), **options)

    def post(self, path: str, content: bytes | Json | None = None, **params: str) -> httpx.Response:
        raw = scenarios.encode(content) if isinstance(content, dict) else content
        return self.http.post(path, content=raw, params=params, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


@dataclass(frozen=True)
class Runner(Caller):
    """The runner of one run."""

    run: str = ""

    @property
    def path(self) -> str:
        return f"/api/runs/{self.run}"

    def update(self, document: Json | bytes) -> httpx.Response:
        return self.post(f"{self.path}/updates", document)

    def upload(self, name: str, content: bytes, kind: str = "metrics", **params: str) -> httpx.Response:
        return self.post(f"{self.path}/evidence", content, name=name, kind=kind, **params)

    def begin(self, **document: Any) -> str:
        """Begin a session."""
        session: str = self.post(f"{self.path}/sessions", document or None).json()["session"]
        return session

    def record(self) -> Json:
        answer: Json = self.get(self.path).json()
        return answer

    def judgment(self) -> Json:
        answer: Json = self.get(f"{self.path}/judgment").json()
        return answer

    def finish(self, wins: int = 150, **changes: Any) -> httpx.Response:
        """Everything a complete run posts, up to its final update."""
        self.update(scenarios.calibration())
        self.upload("observations.jsonl", scenarios.observations(wins))
        return self.update(scenarios.final(wins, **changes))


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of the newest schema: copying it takes a tenth of the time that making one does."""
    folder = tmp_path_factory.mktemp("migrated")
    Store.open(folder).close()
    return folder / "exchange.sqlite3"


@pytest.fixture
def data(tmp_path: Path, migrated: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    shutil.copy(migrated, folder)
    return folder


class SteppingClock:
    """A clock that shows one second more at each look, and that can be set."""

    def __init__(self) -> None:
        self._now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        with self._lock:
            self._now += timedelta(seconds=1)
            return self._now

    def jump(self, **by: float) -> None:
        with self._lock:
            self._now += timedelta(**by)


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def app(data: Path, clock: SteppingClock) -> FastAPI:
    return create_app(data, clock=clock)


@pytest.fixture
def exchange(app: FastAPI) -> Exchange:
    """The services inside the application, for what no request can bring about."""
    exchange = app.state.exchange
    assert isinstance(exchange, Exchange)
    return exchange


@pytest.fixture
def nobody(app: FastAPI) -> Iterator[Caller]:
    """A client of the real application, over the wire, that sends no token."""
    with in_thread(app) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        yield Caller(http)


@pytest.fixture
def admin(nobody: Caller, data: Path) -> Caller:
    return Caller(nobody.http, (data / "admin-token").read_text().strip())


@pytest.fixture(scope="module")
def shared_admin(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Caller]:
    """The administrator of an Exchange that a module's tests share, for what leaves nothing behind."""
    folder = tmp_path_factory.mktemp("shared")
    shutil.copy(migrated, folder)
    with in_thread(create_app(folder)) as url, httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as http:
        yield Caller(http, (folder / "admin-token").read_text().strip())


def start_run(admin: Caller, spec: Json | None = None, launch_mode: str = "ordinary") -> Runner:
    spec_id = admin.post("/api/specs", spec or scenarios.spec(), legacy="true").json()["id"]
    created = admin.post("/api/runs", {"spec_id": spec_id, "launch_mode": launch_mode}).json()
    return Runner(admin.http, created["token"], created["id"])


@pytest.fixture
def runner(admin: Caller) -> Runner:
    return start_run(admin)


@pytest.fixture
def other_runner(admin: Caller) -> Runner:
    """The runner of another run of the same spec."""
    return start_run(admin)
