"""What can be asked of the store and added to it, inside one transaction."""

import json
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256 as hash_sha256

from sqlalchemy import Column, ColumnElement, Connection, Row, Table, func, insert, select

from research_exchange.documents.launch import LaunchMode
from research_exchange.documents.update import StoredUpdate
from research_exchange.store import tables
from research_exchange.store.records import (
    EvidenceRecord,
    OutcomeRecord,
    RefusalRecord,
    RunRecord,
    SessionEnd,
    SessionRecord,
    SpecRecord,
)


class Reader:
    """Questions about one consistent moment of the store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def spec(self, spec_id: str) -> SpecRecord | None:
        return self._one_spec(tables.specs.c.id == spec_id)

    def spec_with_digest(self, sha256: str) -> SpecRecord | None:
        return self._one_spec(tables.specs.c.sha256 == sha256)

    def run(self, run_id: str) -> RunRecord | None:
        row = self._connection.execute(_SELECT_RUNS.where(tables.runs.c.id == run_id)).one_or_none()
        return None if row is None else _run_record(row)

    def runs(self, limit: int, offset: int) -> list[RunRecord]:
        """Newest first."""
        newest_first = _SELECT_RUNS.order_by(tables.runs.c.created_at.desc(), tables.runs.c.id)
        return [_run_record(row) for row in self._connection.execute(newest_first.limit(limit).offset(offset))]

    def count_runs(self) -> int:
        return self._connection.execute(select(func.count()).select_from(tables.runs)).scalar_one()

    def unsettled_runs(self) -> list[str]:
        """Runs without any recorded outcome, oldest first."""
        recorded = select(tables.outcomes.c.run_id)
        query = select(tables.runs.c.id).where(tables.runs.c.id.not_in(recorded)).order_by(tables.runs.c.created_at)
        return list(self._connection.execute(query).scalars())

    def run_of_token(self, token: str) -> str | None:
        """The one run that `token` may write to."""
        query = select(tables.tokens.c.run_id).where(tables.tokens.c.sha256 == _digest(token.encode()))
        return self._connection.execute(query).scalar_one_or_none()

    def updates(self, run_id: str) -> list[StoredUpdate]:
        query = select(tables.updates).where(tables.updates.c.run_id == run_id).order_by(tables.updates.c.sequence)
        return [
            StoredUpdate(row.sequence, row.received_at, row.raw, row.session_id)
            for row in self._connection.execute(query)
        ]

    def update(self, run_id: str, sequence: int) -> StoredUpdate | None:
        key = (tables.updates.c.run_id == run_id) & (tables.updates.c.sequence == sequence)
        row = self._connection.execute(select(tables.updates).where(key)).one_or_none()
        return None if row is None else StoredUpdate(row.sequence, row.received_at, row.raw, row.session_id)

    def count_updates(self, run_id: str) -> int:
        return self._last(tables.updates.c.sequence, run_id)

    def last_update(self, run_id: str) -> StoredUpdate | None:
        return self.update(run_id, self.count_updates(run_id))

    def evidence(self, run_id: str) -> list[EvidenceRecord]:
        """In the order in which they were accepted."""
        query = select(tables.evidence).where(tables.evidence.c.run_id == run_id).order_by(tables.evidence.c.position)
        return [
            EvidenceRecord(
                row.name, row.kind, row.sha256, row.size, row.update_sequence, row.received_at, row.after_update
            )
            for row in self._connection.execute(query)
        ]

    def refusals(self, run_id: str) -> list[RefusalRecord]:
        query = select(tables.refusals).where(tables.refusals.c.run_id == run_id).order_by(tables.refusals.c.number)
        return [
            RefusalRecord(row.name, tuple(json.loads(row.problems)), row.update_sequence, row.received_at)
            for row in self._connection.execute(query)
        ]

    def count_refusals(self, run_id: str) -> int:
        return self._last(tables.refusals.c.number, run_id)

    def sessions(self, run_id: str) -> list[SessionRecord]:
        """In the order in which they started."""
        started, ended = tables.sessions, tables.session_ends
        query = (
            select(started.c.id, started.c.started_at, ended.c.ended_at, ended.c.exit_code, ended.c.reason)
            .outerjoin_from(started, ended, started.c.id == ended.c.session_id)
            .where(started.c.run_id == run_id)
            .order_by(started.c.started_at, started.c.id)
        )
        return [
            SessionRecord(
                row.id,
                row.started_at,
                None if row.ended_at is None else SessionEnd(row.ended_at, row.exit_code, row.reason),
            )
            for row in self._connection.execute(query)
        ]

    def outcomes(self, run_id: str) -> list[OutcomeRecord]:
        """Every outcome ever recorded, oldest first; the last one stands."""
        query = select(tables.outcomes).where(tables.outcomes.c.run_id == run_id).order_by(tables.outcomes.c.number)
        return [
            OutcomeRecord(row.number, row.recorded_at, row.cause, row.validator_version, row.judgment)
            for row in self._connection.execute(query)
        ]

    def _one_spec(self, condition: ColumnElement[bool]) -> SpecRecord | None:
        row = self._connection.execute(select(tables.specs).where(condition)).one_or_none()
        return None if row is None else SpecRecord(row.id, row.sha256, row.title, row.created_at, row.raw)

    def _last(self, counter: Column[int], run_id: str) -> int:
        """The highest value of a column that counts within a run; 0 before the first."""
        query = select(func.coalesce(func.max(counter), 0)).where(counter.table.c.run_id == run_id)
        return self._connection.execute(query).scalar_one()


class Writer(Reader):
    """Adds rows; it holds the write lock, so what it has read is still so when it writes."""

    def add_spec(self, spec: SpecRecord) -> None:
        self._add(
            tables.specs, id=spec.id, sha256=spec.sha256, title=spec.title, created_at=spec.created_at, raw=spec.raw
        )

    def add_run(self, run_id: str, spec_id: str, launch_mode: LaunchMode, token: str, at: datetime) -> None:
        """Add a run and the token of its runner, of which only the SHA-256 is kept."""
        self._add(tables.runs, id=run_id, spec_id=spec_id, launch_mode=launch_mode.value, created_at=at)
        self._add(tables.tokens, sha256=_digest(token.encode()), run_id=run_id, created_at=at)

    def add_session(self, run_id: str, session_id: str, at: datetime) -> None:
        self._add(tables.sessions, id=session_id, run_id=run_id, started_at=at)

    def end_session(self, session_id: str, end: SessionEnd) -> None:
        self._add(
            tables.session_ends,
            session_id=session_id,
            ended_at=end.ended_at,
            exit_code=end.exit_code,
            reason=end.reason,
        )

    def append_update(self, run_id: str, raw: bytes, session_id: str | None, at: datetime) -> StoredUpdate:
        """Store one posted update under the run's next number (R-007)."""
        sequence = self.count_updates(run_id) + 1
        self._add(
            tables.updates,
            run_id=run_id,
            sequence=sequence,
            received_at=at,
            session_id=session_id,
            sha256=_digest(raw),
            size=len(raw),
            raw=raw,
        )
        return StoredUpdate(sequence, at, raw, session_id)

    def add_evidence(self, run_id: str, file: EvidenceRecord) -> None:
        self._add(
            tables.evidence,
            run_id=run_id,
            name=file.name,
            position=self._last(tables.evidence.c.position, run_id) + 1,
            kind=file.kind,
            sha256=file.sha256,
            size=file.size,
            update_sequence=file.update,
            received_at=file.received_at,
            after_update=file.after,
        )

    def add_refusal(self, run_id: str, name: str, problems: Sequence[str], update: int | None, at: datetime) -> None:
        self._add(
            tables.refusals,
            run_id=run_id,
            number=self._last(tables.refusals.c.number, run_id) + 1,
            name=name,
            problems=json.dumps(list(problems)),
            update_sequence=update,
            received_at=at,
        )

    def record_outcome(
        self, run_id: str, cause: str, validator_version: str, judgment: bytes, at: datetime
    ) -> OutcomeRecord:
        number = self._last(tables.outcomes.c.number, run_id) + 1
        self._add(
            tables.outcomes,
            run_id=run_id,
            number=number,
            recorded_at=at,
            cause=cause,
            validator_version=validator_version,
            judgment=judgment,
        )
        return OutcomeRecord(number, at, cause, validator_version, judgment)

    def _add(self, table: Table, **values: object) -> None:
        self._connection.execute(insert(table).values(**values))


_SELECT_RUNS = select(
    tables.runs.c.id, tables.runs.c.spec_id, tables.specs.c.title, tables.runs.c.launch_mode, tables.runs.c.created_at
).join_from(tables.runs, tables.specs)


def _run_record(row: Row[str, str, str, str, datetime]) -> RunRecord:
    return RunRecord(row.id, row.spec_id, row.title, LaunchMode(row.launch_mode), row.created_at)


def _digest(content: bytes) -> str:
    return hash_sha256(content).hexdigest()
