"""Sessions: who sat down at a run, when they were last heard of, and how it ended (R-004, R-051, R-067)."""

from datetime import datetime
from typing import Any

from sqlalchemy import Row, bindparam, delete, insert, select

from research_exchange.store import tables
from research_exchange.store.records import RunnerKind, SessionEnd, SessionRecord
from research_exchange.store.rows.transaction import Transaction


class SessionReader(Transaction):
    def sessions(self, run_id: str) -> list[SessionRecord]:
        """In the order in which they started."""
        query = _SELECT_SESSIONS.where(tables.sessions.c.run_id == run_id).order_by(tables.sessions.c.number)
        return [_session(row) for row in self._all(query)]

    def session(self, session_id: str) -> SessionRecord | None:
        row = self._one(_SELECT_SESSIONS.where(tables.sessions.c.id == session_id))
        return None if row is None else _session(row)

    def open_sessions(self) -> list[SessionRecord]:
        """Those of every run that have not ended, oldest first."""
        query = _SELECT_SESSIONS.where(tables.session_ends.c.session_id.is_(None))
        return [_session(row) for row in self._all(query.order_by(tables.sessions.c.started_at, tables.sessions.c.id))]

    def count_sessions(self, run_id: str) -> int:
        return self._last(tables.sessions.c.number, tables.sessions.c.run_id == run_id)


class SessionWriter(SessionReader):
    def add_session(
        self,
        run_id: str,
        session_id: str,
        at: datetime,
        runner: RunnerKind = RunnerKind.LOCAL,
        brief_sha256: str | None = None,
    ) -> None:
        self._add(
            tables.sessions,
            id=session_id,
            run_id=run_id,
            started_at=at,
            number=self.count_sessions(run_id) + 1,
            runner=runner.value,
            brief_sha256=brief_sha256,
        )

    def beat(self, session_id: str, at: datetime) -> None:
        """Remember that a session was heard of."""
        beats = tables.heartbeats
        self._connection.execute(delete(beats).where(beats.c.session_id == session_id))
        self._connection.execute(insert(beats).values(session_id=session_id, last_seen=at))

    def end_session(self, session_id: str, end: SessionEnd) -> None:
        self._add(tables.session_ends, session_id=session_id, **vars(end))


_SELECT_SESSIONS = (
    select(
        tables.sessions,
        tables.session_ends.c.ended_at,
        tables.session_ends.c.exit_code,
        tables.session_ends.c.reason,
        tables.heartbeats.c.last_seen,
    )
    .outerjoin_from(tables.sessions, tables.session_ends)
    .outerjoin(tables.heartbeats, tables.heartbeats.c.session_id == tables.sessions.c.id)
)

OPEN_SESSION = (
    select(tables.sessions.c.id)
    .outerjoin_from(tables.sessions, tables.session_ends)
    .where(tables.sessions.c.run_id == bindparam("run_id"), tables.session_ends.c.session_id.is_(None))
    .order_by(tables.sessions.c.number.desc())
    .limit(1)
)
"""The newest session of a run that has not ended."""


def _session(row: Row[Any]) -> SessionRecord:
    return SessionRecord(
        id=row.id,
        run_id=row.run_id,
        number=row.number,
        started_at=row.started_at,
        end=None if row.ended_at is None else SessionEnd(row.ended_at, row.exit_code, row.reason),
        runner=RunnerKind(row.runner),
        brief_sha256=row.brief_sha256,
        last_seen=row.last_seen,
    )
