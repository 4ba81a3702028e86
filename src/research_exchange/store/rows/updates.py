"""Updates: every posted document, byte for byte, in order of receipt (R-007)."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, select

from research_exchange.documents.update import StoredUpdate
from research_exchange.store import tables
from research_exchange.store.records import UpdateHead
from research_exchange.store.rows.transaction import Transaction, digest, fields


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
        return [UpdateHead(**fields(row)) for row in self._all(query.limit(limit).offset(offset))]

    def update(self, run_id: str, sequence: int) -> StoredUpdate | None:
        return self._one_update(run_id, tables.updates.c.sequence == sequence)

    def update_with_key(self, run_id: str, idempotency_key: str) -> StoredUpdate | None:
        """The update that was posted under this key, whatever its bytes are."""
        return self._one_update(run_id, tables.updates.c.idempotency_key == idempotency_key)

    def count_updates(self, run_id: str) -> int:
        return self._last(tables.updates.c.sequence, tables.updates.c.run_id == run_id)

    def last_update(self, run_id: str) -> StoredUpdate | None:
        return self.update(run_id, self.count_updates(run_id))

    def _one_update(self, run_id: str, condition: ColumnElement[bool]) -> StoredUpdate | None:
        row = self._one(select(tables.updates).where(tables.updates.c.run_id == run_id, condition))
        return None if row is None else _update(row)


class UpdateWriter(UpdateReader):
    def append_update(
        self, run_id: str, raw: bytes, session_id: str | None, at: datetime, idempotency_key: str | None = None
    ) -> StoredUpdate:
        """Store one posted update under the run's next number (R-007); within a run a key is used once."""
        sequence = self.count_updates(run_id) + 1
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


def _update(row: Row[Any]) -> StoredUpdate:
    return StoredUpdate(row.sequence, row.received_at, row.raw, row.session_id)
