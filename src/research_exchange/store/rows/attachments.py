"""Bytes that a run's runner handed in for its updates to point to (R-166); the bytes themselves may be cleared away."""

from datetime import datetime

from sqlalchemy import func, select

from research_exchange.store import tables
from research_exchange.store.records import HandedIn
from research_exchange.store.rows.transaction import Transaction


class AttachmentReader(Transaction):
    def is_attached(self, sha256: str, run_id: str | None = None) -> bool:
        """Whether these bytes were handed in, by the runner of this run where one is named."""
        kept = tables.attachments.c
        of_run = [] if run_id is None else [kept.run_id == run_id]
        return self._count(tables.attachments, kept.sha256 == sha256, *of_run) > 0

    def handed_in(self, run_id: str) -> HandedIn:
        """How much a run's runner has handed in, the same bytes counted once."""
        kept = tables.attachments.c
        query = select(func.count(), func.coalesce(func.sum(kept.size), 0)).where(kept.run_id == run_id)
        return HandedIn(*self._connection.execute(query).one())


class AttachmentWriter(AttachmentReader):
    def add_attachment(self, run_id: str, sha256: str, size: int, at: datetime) -> None:
        self._add(tables.attachments, run_id=run_id, sha256=sha256, size=size, received_at=at)
