"""R-007, R-009: what was posted is never changed or removed, not even by somebody with the database file in hand."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from research_exchange.store import EvidenceRecord, SessionEnd, Store
from tests.research_exchange.store.conftest import NOON, RUN

TABLES = ("specs", "runs", "sessions", "session_ends", "updates", "evidence", "refusals", "outcomes")


@pytest.fixture
def raw(store: Store, data: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection to a database that has a row in every append-only table."""
    with store.writing() as writer:
        writer.add_session(RUN, "ses_0123456789", NOON)
        writer.end_session("ses_0123456789", SessionEnd(NOON, 0, "the command ended"))
        writer.append_update(RUN, b"{}", None, NOON)
        writer.add_evidence(RUN, EvidenceRecord("a.txt", "log", "b" * 64, 1, 1, NOON))
        writer.add_refusal(RUN, ".env", ["R-169"], 1, NOON)
        writer.record_outcome(RUN, "asked for", "1", b"{}", NOON)
    with closing(sqlite3.connect(data / "exchange.sqlite3")) as connection:
        yield connection


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


@pytest.mark.parametrize("table", TABLES)
def test_no_column_of_a_stored_row_can_be_updated(raw: sqlite3.Connection, table: str) -> None:
    for column in _columns(raw, table):
        with pytest.raises(sqlite3.IntegrityError, match=f"{table} is append-only: no update"):
            raw.execute(f"UPDATE {table} SET {column} = {column}")


@pytest.mark.parametrize("table", TABLES)
def test_no_stored_row_can_be_deleted(raw: sqlite3.Connection, table: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=f"{table} is append-only: no delete"):
        raw.execute(f"DELETE FROM {table}")
    assert raw.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (1,)


@pytest.mark.parametrize("table", TABLES)
def test_no_stored_row_can_be_replaced(raw: sqlite3.Connection, table: str) -> None:
    before = raw.execute(f"SELECT * FROM {table}").fetchall()
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only: no replace|without gaps"):
        raw.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")
    assert raw.execute(f"SELECT * FROM {table}").fetchall() == before


@pytest.mark.parametrize("sequence", [1, 3, 0])
def test_updates_count_without_gaps(raw: sqlite3.Connection, sequence: int) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="without gaps"):
        raw.execute(
            "INSERT INTO updates SELECT run_id, ?, received_at, session_id, sha256, size, raw FROM updates", [sequence]
        )


def test_every_table_but_the_tokens_is_guarded(raw: sqlite3.Connection) -> None:
    tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables - {"alembic_version", "tokens"} == set(TABLES)


def test_tokens_are_kept_only_as_hashes(raw: sqlite3.Connection) -> None:
    dump = "\n".join(raw.iterdump())
    assert "rxr_a-secret" not in dump
    assert raw.execute("SELECT run_id FROM tokens").fetchone() == (RUN,)
