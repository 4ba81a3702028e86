"""R-007, R-009: what was posted is never changed or removed, not even by somebody with the database in hand."""

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
MAY_CHANGE = {"tokens", "heartbeats", "judgment_cache", "hooks", "deliveries"}
GAPLESS = ("updates.sequence", "refusals.number", "outcomes.number", "queue.number", "audit.number", "sessions.number")


def _columns(raw: Connection, table: str) -> list[str]:
    return [column["name"] for column in inspect(raw).get_columns(table)]


def _rows(raw: Connection, table: str) -> list[object]:
    return [tuple(row) for row in raw.execute(text(f"SELECT * FROM {table}"))]


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_no_column_of_a_stored_row_can_be_updated(raw: Connection, table: str) -> None:
    for column in _columns(raw, table):
        with pytest.raises(IntegrityError, match=f"{table} is append-only: no update"), raw.begin_nested():
            raw.execute(text(f'UPDATE {table} SET "{column}" = "{column}"'))


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_no_stored_row_can_be_deleted(raw: Connection, table: str) -> None:
    before = _rows(raw, table)
    with pytest.raises(IntegrityError, match=f"{table} is append-only: no delete"), raw.begin_nested():
        raw.execute(text(f"DELETE FROM {table}"))
    assert before
    assert _rows(raw, table) == before


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_no_stored_row_can_be_replaced(raw: Connection, table: str) -> None:
    before = _rows(raw, table)
    with pytest.raises(IntegrityError, match=r"append-only: no replace|without gaps"), raw.begin_nested():
        raw.execute(text(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}"))
    assert _rows(raw, table) == before


@pytest.mark.parametrize("number", [1, 3, 0])
@pytest.mark.parametrize("counter", GAPLESS)
def test_what_counts_counts_without_gaps(raw: Connection, counter: str, number: int) -> None:
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
