"""Triggers that keep what is on record as it is, in the words of each database.

They hold for whoever has the database in hand, not only for this program (R-007, R-009).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from alembic import op


def forbid_changes(table: str, key: tuple[str, ...]) -> None:
    """Refuse to change, remove or replace a row of `table`, whose primary key is `key`."""
    _refuse(table, "update", "BEFORE UPDATE")
    _refuse(table, "delete", "BEFORE DELETE")
    if _is_postgresql():
        _refuse(table, "truncate", "BEFORE TRUNCATE", each="STATEMENT")
    else:
        # INSERT OR REPLACE deletes without firing a DELETE trigger.
        same = " AND ".join(f"{column} = NEW.{column}" for column in key)
        _refuse(table, "replace", "BEFORE INSERT", when=f"EXISTS (SELECT 1 FROM {table} WHERE {same})")


@contextmanager
def updates_allowed(table: str) -> Iterator[None]:
    """Lift the guard while a migration fills a new column of an append-only table."""
    op.execute(f"DROP TRIGGER {table}_no_update" + (f" ON {table}" if _is_postgresql() else ""))
    yield
    _refuse(table, "update", "BEFORE UPDATE")


def forbid_gaps(table: str, column: str, within: str | None = "run_id") -> None:
    """Let `column` only count 1, 2, 3 … among the rows that share `within`, or among all rows."""
    same = f" WHERE {within} = NEW.{within}" if within else ""
    following = f"(SELECT COALESCE(MAX({column}), 0) + 1 FROM {table}{same})"
    _raise(
        f"{table}_no_gap",
        f"{table}.{column} counts without gaps",
        f"BEFORE INSERT ON {table}",
        when=f"NEW.{column} <> {following}",
    )


def _refuse(table: str, verb: str, moment: str, *, when: str | None = None, each: str = "ROW") -> None:
    _raise(f"{table}_no_{verb}", f"{table} is append-only: no {verb}", f"{moment} ON {table}", when=when, each=each)


def _raise(name: str, message: str, event: str, *, when: str | None, each: str = "ROW") -> None:
    if not _is_postgresql():
        condition = f" WHEN {when}" if when else ""
        op.execute(f"CREATE TRIGGER {name} {event}{condition} BEGIN SELECT RAISE(ABORT, '{message}'); END")
        return
    op.execute(
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF {when or 'TRUE'} THEN RAISE EXCEPTION '{message}' USING ERRCODE = 'integrity_constraint_violation'; "
        f"END IF; RETURN NEW; END $$"
    )
    op.execute(f"CREATE TRIGGER {name} {event} FOR EACH {each} EXECUTE FUNCTION {name}()")


def _is_postgresql() -> bool:
    return op.get_context().dialect.name == "postgresql"
