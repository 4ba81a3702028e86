import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, make_url

from research_exchange.documents.gates import Applicability, GateResult, GateStatus
from research_exchange.store import (
    EvidenceRecord,
    HookKind,
    IdeaRecord,
    LaunchMode,
    Reader,
    Role,
    SessionEnd,
    SpecRecord,
    Store,
    Writer,
)
from tests.services.postgresql import PostgreSQLServer, running_postgresql
from tests.services.seaweedfs import SeaweedFS, running_seaweedfs

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPEC, RUN, TOKEN = "exp_0123456789", "run_0123456789", "rxr_a-secret"
POSTGRESQL_TEMPLATE = "test_1"
DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
IDEA, SESSION, HOOK = "idea_0123456789", "ses_0123456789", "hook_0123456789"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of the current schema; a copy is much faster than all the migrations."""
    folder = tmp_path_factory.mktemp("template")
    Store.open(folder).close()
    return folder / "exchange.sqlite3"


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQLServer]:
    """A server with a template database of the current schema."""
    with running_postgresql() as server:
        template = server.create()
        assert template == POSTGRESQL_TEMPLATE
        Store.open(tmp_path_factory.mktemp("template"), server.url(template)).close()
        yield server


@pytest.fixture
def sqlite_url(data: Path, sqlite_template: Path) -> str:
    data.mkdir(exist_ok=True)
    shutil.copy(sqlite_template, data)
    return f"sqlite:///{data / sqlite_template.name}"


@pytest.fixture
def postgresql_url(postgresql: PostgreSQLServer) -> Iterator[str]:
    database = postgresql.create(POSTGRESQL_TEMPLATE)
    yield postgresql.url(database)
    postgresql.drop(database)


@pytest.fixture(params=["sqlite_url", "postgresql_url"])
def database_url(request: pytest.FixtureRequest) -> str:
    chosen: str = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def store(data: Path, database_url: str) -> Iterator[Store]:
    """A store that holds one spec and one run of it."""
    opened = Store.open(data, database_url)
    with opened.writing() as writer:
        writer.add_spec(SpecRecord(SPEC, "a" * 64, "A title", NOON, b'{"title": "A title"}'))
        writer.add_run(RUN, SPEC, LaunchMode.ORDINARY, TOKEN, NOON)
    yield opened
    opened.close()


@pytest.fixture
def raw(store: Store, database_url: str) -> Iterator[Connection]:
    """A plain connection to a database that has one row in every table but those of specs, runs and tokens."""
    with store.writing() as writer:
        one_row_in_every_table(writer)
    engine = create_engine(make_url(database_url).set(drivername=DRIVERS[database_url.partition(":")[0]]))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def run_of(reader: Reader, secret: str) -> str | None:
    """The run that a token was given out for; None where there is no such token."""
    token = reader.any_token(secret)
    return None if token is None else token.run_id


def one_row_in_every_table(writer: Writer) -> None:
    writer.add_idea(IdeaRecord(IDEA, NOON, "ada", "slack:T1:C2:3.4"))
    writer.add_snapshot(IDEA, NOON, "ada", "An idea", "In short.", "https://example.org/1", "Worth a try.")
    writer.add_spec(SpecRecord("exp_1111111111", "c" * 64, "Another", NOON, b"{}", SPEC, IDEA, 1))
    writer.add_token("rxa_ada", Role.RESEARCHER, "ada", NOON)
    writer.add_audit(NOON, "tok_1", "spec.save", SPEC, {"idea": IDEA})
    writer.claim(writer.enqueue(RUN, NOON, "every slot is taken", "ada"), NOON, "worker 1")
    writer.cancel_run(RUN, NOON, "ada", "a mistake")
    writer.add_session(RUN, SESSION, NOON)
    writer.beat(SESSION, NOON)
    writer.end_session(SESSION, SessionEnd(NOON, 0, "the command ended"))
    writer.append_update(RUN, b"{}", None, NOON, "a key")
    writer.add_evidence(RUN, EvidenceRecord("a.txt", "log", "b" * 64, 1, 1, NOON))
    writer.add_attachment(RUN, "b" * 64, 1, NOON)
    writer.add_refusal(RUN, ".env", ["R-169"], 1, NOON)
    gate = GateResult("decision", Applicability.REQUIRED, GateStatus.PASSED, "It was recomputed.")
    writer.record_outcome(RUN, "asked for", "1", b"{}", NOON, [gate])
    writer.cache_judgment(RUN, "d" * 64, "1", b"{}", NOON)
    writer.add_hook(HOOK, HookKind.WEBHOOK, "https://example.org/hook", "HOOK_SECRET", ["run.ended"], NOON)
    writer.add_delivery(HOOK, RUN, "run.ended", NOON)


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    with running_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server
