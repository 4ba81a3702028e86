"""R-007, R-009: what was posted is never changed or removed, not even by somebody with the database in hand."""

import itertools

import pytest
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import IntegrityError

from tests.research_exchange.store.conftest import RUN

APPEND_ONLY = (
    "audit",
    "cancellations",
    "evidence",
    "gates",
    "idea_snapshots",
    "ideas",
    "outcomes",
    "queue",
    "queue_claims",
    "refusals",
    "runs",
    "session_ends",
    "sessions",
    "spec_origins",
    "specs",
    "updates",
)
MAY_CHANGE = {"tokens", "heartbeats", "attachments", "judgment_cache", "hooks", "deliveries"}
GAPLESS = ("updates.sequence", "refusals.number", "outcomes.number", "queue.number", "audit.number", "sessions.number")


def _columns(raw: Connection, table: str) -> list[str]:
    return [column["name"] for column in inspect(raw).get_columns(table)]


def _rows(raw: Connection, table: str) -> list[object]:
    return [tuple(row) for row in raw.execute(text(f"SELECT * FROM {table}"))]


def test_no_column_of_a_stored_row_can_be_updated(raw: Connection) -> None:
    for table in APPEND_ONLY:
        for column in _columns(raw, table):
            with pytest.raises(IntegrityError, match=f"{table} is append-only: no update"), raw.begin_nested():
                raw.execute(text(f'UPDATE {table} SET "{column}" = "{column}"'))


def test_no_stored_row_can_be_deleted(raw: Connection) -> None:
    for table in APPEND_ONLY:
        before = _rows(raw, table)
        with pytest.raises(IntegrityError, match=f"{table} is append-only: no delete"), raw.begin_nested():
            raw.execute(text(f"DELETE FROM {table}"))
        assert before
        assert _rows(raw, table) == before


def test_no_stored_row_can_be_replaced(raw: Connection) -> None:
    for table in APPEND_ONLY:
        before = _rows(raw, table)
        if raw.dialect.name == "sqlite":
            replacement = f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}"
        else:
            [key, *_] = inspect(raw).get_pk_constraint(table)["constrained_columns"]
            conflict = f'ON CONFLICT ON CONSTRAINT {table}_pkey DO UPDATE SET "{key}" = EXCLUDED."{key}"'
            replacement = f"INSERT INTO {table} SELECT * FROM {table} {conflict}"
        with pytest.raises(IntegrityError, match=r"no replace|no update|without gaps"), raw.begin_nested():
            raw.execute(text(replacement))
        assert _rows(raw, table) == before


@pytest.mark.parametrize("database_url", ["postgresql_url"], indirect=True)
def test_no_table_can_be_emptied(raw: Connection) -> None:
    """PostgreSQL has a word for that, which fires no trigger of a row."""
    for table in APPEND_ONLY:
        with pytest.raises(IntegrityError, match="append-only: no truncate"), raw.begin_nested():
            raw.execute(text(f"TRUNCATE {table} CASCADE"))


def test_what_counts_counts_without_gaps(raw: Connection) -> None:
    for counter, number in itertools.product(GAPLESS, (1, 3, 0)):
        table, column = counter.split(".")
        columns = _columns(raw, table)
        chosen = ", ".join(str(number) if each == column else f'"{each}"' for each in columns)
        names = ", ".join(f'"{each}"' for each in columns)
        with pytest.raises(IntegrityError, match=r"without gaps|append-only: no replace"), raw.begin_nested():
            raw.execute(text(f"INSERT INTO {table} ({names}) SELECT {chosen} FROM {table}"))


def test_every_table_is_guarded_or_known_to_change(raw: Connection) -> None:
    assert set(inspect(raw).get_table_names()) - {"alembic_version"} == set(APPEND_ONLY) | MAY_CHANGE


def test_tokens_are_kept_only_as_hashes(raw: Connection) -> None:
    kept = [tuple(row) for row in raw.execute(text("SELECT * FROM tokens ORDER BY run_id NULLS LAST"))]
    assert len(kept) == 2
    assert RUN in kept[0]
    assert "secret" not in str(kept)
