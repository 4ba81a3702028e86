"""Databases of every earlier version are brought up to date with what they hold, tokens among it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from research_exchange.store import RunnerKind, RunPhase, SessionEnd, Store
from tests.research_exchange.store.conftest import NOON, RUN, SPEC, TOKEN, run_of

OLDER = (Path(__file__).parent / "older" / "schema_0002.sql").read_text()
"""A database as the second version of the schema wrote it, with rows in every table."""
OTHER_RUN = "run_1111111111"


@pytest.fixture
def upgraded(data: Path) -> Iterator[Store]:
    data.mkdir()
    with closing(sqlite3.connect(data / "exchange.sqlite3")) as connection:
        connection.executescript(OLDER)
    store = Store.open(data)
    yield store
    store.close()


def test_everything_can_be_read(upgraded: Store) -> None:
    with upgraded.reading() as reader:
        spec, runs = reader.spec(SPEC), reader.runs(10, 0)
        updates, evidence, refusals = reader.updates(RUN), reader.evidence(RUN), reader.refusals(RUN)
        [outcome] = reader.outcomes(RUN)
    assert spec is not None
    assert (spec.raw, spec.parent, spec.idea_id) == (b'{"title": "A title"}', None, None)
    assert [(run.id, run.phase, run.redo_of) for run in runs] == [
        (OTHER_RUN, RunPhase.CREATED, None),
        (RUN, RunPhase.RUNNING, None),
    ]
    assert [update.raw for update in updates] == [b'{"status": "running"}', b'{"status": "succeeded"}']
    assert [(file.name, file.update, file.after) for file in evidence] == [("a.txt", 1, 0), ("b.txt", None, 2)]
    assert [refusal.name for refusal in refusals] == [".env"]
    assert (outcome.cause, outcome.judgment) == ("final update 2", b'{"verdict": "supported"}')


def test_runners_keep_their_tokens(upgraded: Store) -> None:
    with upgraded.reading() as reader:
        found = [run_of(reader, secret) for secret in (TOKEN, "rxr_another", "rxr_none")]
        token = reader.any_token(TOKEN)
    assert found == [RUN, OTHER_RUN, None]
    assert token is not None
    assert (token.id[:4], token.why_refused(NOON + timedelta(days=10_000))) == ("tok_", None)


def test_sessions_are_numbered_as_they_started(upgraded: Store) -> None:
    with upgraded.writing() as writer:
        writer.add_session(RUN, "ses_cccccccccc", NOON - timedelta(hours=1), RunnerKind.AGENT)
    with upgraded.reading() as reader:
        sessions = reader.sessions(RUN)
    assert [(session.number, session.id, session.runner) for session in sessions] == [
        (1, "ses_bbbbbbbbbb", RunnerKind.LOCAL),
        (2, "ses_aaaaaaaaaa", RunnerKind.LOCAL),
        (3, "ses_cccccccccc", RunnerKind.AGENT),
    ]
    assert sessions[0].end == SessionEnd(NOON + timedelta(minutes=2), 1, "the command failed")


def test_what_stands_there_stays_append_only(upgraded: Store, data: Path) -> None:
    with closing(sqlite3.connect(data / "exchange.sqlite3")) as connection:
        for table in ("sessions", "updates", "outcomes", "runs", "specs"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only: no update"):
                connection.execute(f"UPDATE {table} SET rowid = rowid")


def test_files_of_the_first_version_count_as_having_come_before_the_first_update(data: Path) -> None:
    data.mkdir()
    with closing(sqlite3.connect(data / "exchange.sqlite3")) as connection, connection:
        connection.executescript(OLDER)
        connection.execute("ALTER TABLE evidence DROP COLUMN after_update")
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    store = Store.open(data)
    with store.reading() as reader:
        files = reader.evidence(RUN)
    store.close()
    assert [(file.name, file.update, file.after) for file in files] == [("a.txt", 1, 0), ("b.txt", None, 0)]
