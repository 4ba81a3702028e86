"""Updates: every posted document, byte for byte, in order of receipt (R-007)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, bindparam, func, or_, select

from research_exchange.documents.update import StoredUpdate
from research_exchange.store import tables
from research_exchange.store.records import UpdateHead
from research_exchange.store.rows.transaction import Transaction, digest


class UpdateReader(Transaction):
    def updates(self, run_id: str, after: int = 0) -> list[StoredUpdate]:
        """In order, from the one that follows `after`."""
        kept = tables.updates
        query = select(kept).where(kept.c.run_id == run_id, kept.c.sequence > after).order_by(kept.c.sequence)
        return [_update(row) for row in self._all(query)]

    def update_heads(self, run_id: str, limit: int, offset: int) -> list[UpdateHead]:
        """In order, without the bytes."""
        kept = tables.updates
        query = (
            select(kept.c.sequence, kept.c.received_at, kept.c.session_id, kept.c.sha256, kept.c.size)
            .where(kept.c.run_id == run_id)
            .order_by(kept.c.sequence)
        )
        return [_head(row) for row in self._all(query.limit(limit).offset(offset))]

    def update(self, run_id: str, sequence: int) -> StoredUpdate | None:
        return self._one_update(run_id, tables.updates.c.sequence == sequence)

    def newest_and_keyed(self, run_id: str, idempotency_key: str | None) -> tuple[UpdateHead | None, UpdateHead | None]:
        """The run's newest update, and the one that was posted under this key."""
        asked = {"run_id": run_id, "key": idempotency_key}
        found: list[Row[Any]] = [*self._connection.execute(_NEWEST_OR_KEYED, asked)]
        heads = {row.idempotency_key: _head(row[:-1]) for row in found}
        newest = max(heads.values(), key=lambda head: head.sequence, default=None)
        return newest, None if idempotency_key is None else heads.get(idempotency_key)

    def count_updates(self, run_id: str) -> int:
        return self._last(tables.updates.c.sequence, tables.updates.c.run_id == run_id)

    def bytes_of_updates(self, run_id: str) -> int:
        """Of all updates of a run together."""
        total = select(func.sum(tables.updates.c.size)).where(tables.updates.c.run_id == run_id)
        return self._connection.execute(total).scalar_one() or 0

    def last_update(self, run_id: str) -> StoredUpdate | None:
        return self.update(run_id, self.count_updates(run_id))

    def _one_update(self, run_id: str, condition: ColumnElement[bool]) -> StoredUpdate | None:
        row = self._one(select(tables.updates).where(tables.updates.c.run_id == run_id, condition))
        return None if row is None else _update(row)


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
        self._add(
            tables.updates,
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
_NEWEST_OR_KEYED: Select[Any] = select(
    _kept.c.sequence, _kept.c.received_at, _kept.c.session_id, _kept.c.sha256, _kept.c.size, _kept.c.idempotency_key
).where(
    _kept.c.run_id == bindparam("run_id"),
    or_(
        _kept.c.sequence
        == select(func.max(_kept.c.sequence)).where(_kept.c.run_id == bindparam("run_id")).scalar_subquery(),
        _kept.c.idempotency_key == bindparam("key"),
    ),
)
"""Asked before every update is stored, so it is put together once."""


def _head(columns: Sequence[Any]) -> UpdateHead:
    """From the record's fields in their order: a run has many, and asking for each by its name takes long."""
    return UpdateHead(*columns)


def _update(row: Row[Any]) -> StoredUpdate:
    return StoredUpdate(row.sequence, row.received_at, row.raw, row.session_id)
