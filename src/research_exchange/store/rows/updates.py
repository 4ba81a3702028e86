"""Updates: every posted document, byte for byte, in order of receipt (R-007)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, bindparam, func, insert, or_, select

from research_exchange.documents.update import StoredUpdate
from research_exchange.store import tables
from research_exchange.store.prepared import Prepared
from research_exchange.store.records import Standing, UpdateHead, UpdateMark
from research_exchange.store.rows.sessions import OPEN_SESSION
from research_exchange.store.rows.transaction import Transaction, digest


class UpdateReader(Transaction):
    def updates(self, run_id: str, after: int = 0) -> list[StoredUpdate]:
        """In order, from the one that follows `after`."""
        kept = tables.updates
        query = select(kept).where(kept.c.run_id == run_id, kept.c.sequence > after).order_by(kept.c.sequence)
        return [_update(row) for row in self._all(query)]

    def update_heads(self, run_id: str, limit: int, offset: int, newest_first: bool = False) -> list[UpdateHead]:
        """In order of receipt, or against it, without the bytes."""
        kept = tables.updates
        query = (
            select(kept.c.sequence, kept.c.received_at, kept.c.session_id, kept.c.sha256, kept.c.size)
            .where(kept.c.run_id == run_id)
            .order_by(kept.c.sequence.desc() if newest_first else kept.c.sequence)
        )
        return [_head(row) for row in self._all(query.limit(limit).offset(offset))]

    def update(self, run_id: str, sequence: int) -> StoredUpdate | None:
        kept = tables.updates
        row = self._one(select(kept).where(kept.c.run_id == run_id, kept.c.sequence == sequence))
        return None if row is None else _update(row)

    def standing(self, run_id: str, idempotency_key: str | None) -> Standing:
        """What a run has when an update is delivered to it, maybe under a key."""
        found = _STANDING.rows(self._connection, run_id=run_id, key=idempotency_key)
        marks = {key: UpdateMark(sequence, sha256) for sequence, sha256, key, _ in found if sequence is not None}
        newest = max(marks.values(), default=None)
        keyed = None if idempotency_key is None else marks.get(idempotency_key)
        return Standing(newest, keyed, open_session=found[0][-1] if found else None)

    def count_updates(self, run_id: str) -> int:
        return self._last(tables.updates.c.sequence, tables.updates.c.run_id == run_id)

    def bytes_of_updates(self, run_id: str) -> int:
        """Of all updates of a run together."""
        total = select(func.sum(tables.updates.c.size)).where(tables.updates.c.run_id == run_id)
        return self._connection.execute(total).scalar_one() or 0


class UpdateWriter(UpdateReader):
    def append_update(
        self,
        run_id: str,
        raw: bytes,
        session_id: str | None,
        at: datetime,
        idempotency_key: str | None = None,
        after: int | None = None,
    ) -> StoredUpdate:
        """Store one posted update under the run's next number (R-007); within a run a key is used once.

        Args:
            after: The number of the newest update, 0 for none, where the caller has asked in this transaction.
        """
        sequence = (self.count_updates(run_id) if after is None else after) + 1
        _APPEND.rows(
            self._connection,
            run_id=run_id,
            sequence=sequence,
            received_at=at,
            session_id=session_id,
            sha256=digest(raw),
            size=len(raw),
            raw=raw,
            idempotency_key=idempotency_key,
        )
        return StoredUpdate(sequence, at, raw, session_id)


_kept = tables.updates
_newest = select(func.max(_kept.c.sequence)).where(_kept.c.run_id == bindparam("run_id")).scalar_subquery()
_STANDING = Prepared(
    select(_kept.c.sequence, _kept.c.sha256, _kept.c.idempotency_key, OPEN_SESSION.scalar_subquery())
    .select_from(tables.runs)
    .outerjoin(
        _kept,
        and_(
            _kept.c.run_id == tables.runs.c.id,
            or_(_kept.c.sequence == _newest, _kept.c.idempotency_key == bindparam("key")),
        ),
    )
    .where(tables.runs.c.id == bindparam("run_id"))
)
_APPEND = Prepared(insert(_kept))


def _head(columns: Sequence[Any]) -> UpdateHead:
    """From the record's fields in their order: a run has many, and asking for each by its name takes long."""
    return UpdateHead(*columns)


def _update(row: Row[Any]) -> StoredUpdate:
    return StoredUpdate(row.sequence, row.received_at, row.raw, row.session_id)
