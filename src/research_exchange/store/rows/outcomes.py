"""Outcomes on record with their gates (R-010, R-011), and judgments kept for their inputs."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, delete, exists, select

from research_exchange.documents.gates import GateResult
from research_exchange.store import tables
from research_exchange.store.records import ASKED_FOR, GateRecord, OutcomeRecord
from research_exchange.store.rows.sessions import SessionReader
from research_exchange.store.rows.transaction import Transaction, fields


class OutcomeReader(Transaction):
    def outcomes(self, run_id: str) -> list[OutcomeRecord]:
        """Every outcome ever recorded, oldest first; the last one stands."""
        query = select(tables.outcomes).where(tables.outcomes.c.run_id == run_id).order_by(tables.outcomes.c.number)
        return [
            OutcomeRecord(row.number, row.recorded_at, row.cause, row.validator_version, row.judgment)
            for row in self._all(query)
        ]

    def count_outcomes(self, run_id: str) -> int:
        return self._last(tables.outcomes.c.number, tables.outcomes.c.run_id == run_id)

    def standing_outcomes(self, run_ids: Sequence[str]) -> dict[str, OutcomeRecord]:
        """For each of these runs that has any, the outcome that stands."""
        kept, later = tables.outcomes, tables.outcomes.alias("later")
        is_last = ~exists().where(later.c.run_id == kept.c.run_id, later.c.number > kept.c.number)
        return {
            row.run_id: OutcomeRecord(row.number, row.recorded_at, row.cause, row.validator_version, row.judgment)
            for row in self._all(select(kept).where(kept.c.run_id.in_(run_ids), is_last))
        }

    def ends(self, run_ids: Sequence[str]) -> dict[str, str]:
        """For each of these runs that has ended, how: the cause of its newest outcome that nobody asked for."""
        kept = tables.outcomes
        query = select(kept.c.run_id, kept.c.cause).where(kept.c.run_id.in_(run_ids), kept.c.cause != ASKED_FOR)
        return {row.run_id: row.cause for row in self._all(query.order_by(kept.c.run_id, kept.c.number))}

    def gates(self, run_id: str) -> list[GateRecord]:
        """Those of every outcome on record, oldest outcome first."""
        kept = tables.gates
        query = select(kept).where(kept.c.run_id == run_id).order_by(kept.c.outcome, kept.c.gate)
        return [GateRecord(**fields(row)) for row in self._all(query)]

    def cached_judgment(self, run_id: str, input_sha256: str, validator_version: str) -> bytes | None:
        """What the rules of this version said of exactly these inputs, if it was kept."""
        query = select(tables.judgment_cache.c.judgment).where(_cached(run_id, input_sha256, validator_version))
        return self._connection.execute(query).scalar_one_or_none()


class OutcomeWriter(OutcomeReader, SessionReader):
    def record_outcome(
        self,
        run_id: str,
        cause: str,
        validator_version: str,
        judgment: bytes,
        at: datetime,
        gates: Iterable[GateResult] = (),
    ) -> OutcomeRecord:
        number = self._last(tables.outcomes.c.number, tables.outcomes.c.run_id == run_id) + 1
        self._add(
            tables.outcomes,
            run_id=run_id,
            number=number,
            recorded_at=at,
            cause=cause,
            validator_version=validator_version,
            judgment=judgment,
            after_session=self.count_sessions(run_id),
        )
        for gate in gates:
            record = GateRecord(
                run_id, number, gate.gate, gate.applicability.value, gate.status.value, validator_version
            )
            self._add(tables.gates, **vars(record))
        return OutcomeRecord(number, at, cause, validator_version, judgment)

    def cache_judgment(
        self, run_id: str, input_sha256: str, validator_version: str, judgment: bytes, at: datetime
    ) -> None:
        self._connection.execute(delete(tables.judgment_cache).where(_cached(run_id, input_sha256, validator_version)))
        self._add(
            tables.judgment_cache,
            run_id=run_id,
            input_sha256=input_sha256,
            validator_version=validator_version,
            made_at=at,
            judgment=judgment,
        )


def _cached(run_id: str, input_sha256: str, validator_version: str) -> ColumnElement[bool]:
    cache = tables.judgment_cache
    key = (cache.c.run_id == run_id) & (cache.c.input_sha256 == input_sha256)
    return key & (cache.c.validator_version == validator_version)
