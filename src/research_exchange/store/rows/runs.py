"""Runs, and where each of them stands (R-004, R-005)."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, case, exists, func, literal, or_, select

from research_exchange.documents.launch import LaunchMode
from research_exchange.store import tables
from research_exchange.store.records import ASKED_FOR, Role, RunPhase, RunRecord
from research_exchange.store.rows.tokens import TokenWriter
from research_exchange.store.rows.transaction import Transaction, fields


class RunReader(Transaction):
    def run(self, run_id: str) -> RunRecord | None:
        row = self._one(SELECT_RUNS.where(tables.runs.c.id == run_id))
        return None if row is None else run_record(row)

    def runs(
        self,
        limit: int,
        offset: int,
        spec_id: str | None = None,
        phase: RunPhase | None = None,
        ended_by: str | None = None,
    ) -> list[RunRecord]:
        """Newest first; where these are named of one spec version, in one phase, ended by a cause that starts so."""
        newest_first = (tables.runs.c.created_at.desc(), tables.runs.c.id)
        # The page first: where a run stands is then asked of its few runs alone.
        page = select(tables.runs.c.id).where(*_such(spec_id, phase, ended_by)).order_by(*newest_first)
        listed = tables.runs.c.id.in_(page.limit(limit).offset(offset))
        return self._run_records(SELECT_RUNS.where(listed).order_by(*newest_first))

    def count_runs(self, spec_id: str | None = None, phase: RunPhase | None = None, ended_by: str | None = None) -> int:
        return self._count(tables.runs, *_such(spec_id, phase, ended_by))

    def runs_of_spec(self, spec_id: str) -> list[RunRecord]:
        """Every run of a spec version, oldest first."""
        query = SELECT_RUNS.where(*_such(spec_id))
        return self._run_records(query.order_by(tables.runs.c.created_at, tables.runs.c.id))

    def unsettled_runs(self) -> list[str]:
        """Runs that may have ended without an outcome on record, oldest first: something came after the last one."""
        query = select(tables.runs.c.id).where(_IS_UNSETTLED).order_by(tables.runs.c.created_at)
        return list(self._connection.execute(query).scalars())

    def _run_records(self, query: Select[Any]) -> list[RunRecord]:
        return [run_record(row) for row in self._all(query)]


class RunWriter(RunReader, TokenWriter):
    def add_run(
        self,
        run_id: str,
        spec_id: str,
        launch_mode: LaunchMode,
        token: str,
        at: datetime,
        redo_of: str | None = None,
        expires_at: datetime | None = None,
    ) -> None:
        """Add a run and the token of its runner, of which only the SHA-256 is kept."""
        self._add(
            tables.runs, id=run_id, spec_id=spec_id, launch_mode=launch_mode.value, created_at=at, redo_of=redo_of
        )
        self.add_token(token, Role.RUNNER, run_id, at, run_id=run_id, expires_at=expires_at)


_queue, _sessions, _outcomes = tables.queue, tables.sessions, tables.outcomes
_taken, _later = tables.queue_claims.alias("taken"), tables.sessions.alias("later")

IS_OPEN = and_(
    ~exists().where(_taken.c.run_id == _queue.c.run_id, _taken.c.number == _queue.c.number),
    ~exists().where(tables.cancellations.c.run_id == _queue.c.run_id),
)
"""Of an entry of the queue: nobody took it, and its run was not cancelled."""

_IS_NEWEST = ~exists().where(_later.c.run_id == _sessions.c.run_id, _later.c.number > _sessions.c.number)
_HAS_NOT_ENDED = ~exists().where(tables.session_ends.c.session_id == _sessions.c.id)
_SAW_AN_OUTCOME = exists().where(
    _outcomes.c.run_id == _sessions.c.run_id,
    _outcomes.c.after_session >= _sessions.c.number,
    _outcomes.c.cause != ASKED_FOR,
)

_LAST_OUTCOME = (
    select(func.max(_outcomes.c.recorded_at))
    .where(_outcomes.c.run_id == tables.runs.c.id, _outcomes.c.cause != ASKED_FOR)
    .scalar_subquery()
)
_HAS_AN_OUTCOME = exists().where(_outcomes.c.run_id == tables.runs.c.id, _outcomes.c.cause != ASKED_FOR)
_IS_UNSETTLED = or_(
    exists().where(
        tables.updates.c.run_id == tables.runs.c.id,
        or_(~_HAS_AN_OUTCOME, tables.updates.c.received_at >= _LAST_OUTCOME),
    ),
    exists().where(_sessions.c.run_id == tables.runs.c.id, _IS_NEWEST, ~_HAS_NOT_ENDED, ~_SAW_AN_OUTCOME),
    and_(exists().where(tables.cancellations.c.run_id == tables.runs.c.id), ~_HAS_AN_OUTCOME),
)

_PHASE = case(
    (exists().where(tables.cancellations.c.run_id == tables.runs.c.id), literal(RunPhase.CANCELLED.value)),
    (exists().where(_queue.c.run_id == tables.runs.c.id, IS_OPEN), literal(RunPhase.QUEUED.value)),
    (
        exists().where(_sessions.c.run_id == tables.runs.c.id, _IS_NEWEST, _HAS_NOT_ENDED, ~_SAW_AN_OUTCOME),
        literal(RunPhase.RUNNING.value),
    ),
    (
        or_(
            exists().where(_sessions.c.run_id == tables.runs.c.id),
            exists().where(_outcomes.c.run_id == tables.runs.c.id, _outcomes.c.cause != ASKED_FOR),
        ),
        literal(RunPhase.ENDED.value),
    ),
    else_=literal(RunPhase.CREATED.value),
)

SELECT_RUNS = select(tables.runs, tables.specs.c.title, _PHASE.label("phase")).join_from(tables.runs, tables.specs)


def run_record(row: Row[Any]) -> RunRecord:
    return RunRecord(**fields(row, launch_mode=LaunchMode, phase=RunPhase))


_END = (
    select(_outcomes.c.cause)
    .where(_outcomes.c.run_id == tables.runs.c.id, _outcomes.c.cause != ASKED_FOR)
    .order_by(_outcomes.c.number.desc())
    .limit(1)
    .scalar_subquery()
)


def _such(spec_id: str | None, phase: RunPhase | None = None, ended_by: str | None = None) -> list[ColumnElement[bool]]:
    wanted = ((tables.runs.c.spec_id, spec_id), (_PHASE, phase))
    conditions = [column == value for column, value in wanted if value is not None]
    return conditions if ended_by is None else [*conditions, _END.startswith(ended_by, autoescape=True)]
