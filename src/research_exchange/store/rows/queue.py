"""The queue: which runs wait, since when and why; who took them; and which were cancelled (R-202)."""

from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, exists, select

from research_exchange.store import tables
from research_exchange.store.records import Cancellation, QueuedRun, QueueRecord
from research_exchange.store.rows.runs import IS_OPEN, RunReader
from research_exchange.store.rows.transaction import fields


class QueueReader(RunReader):
    def queue(self, limit: int | None = None, offset: int = 0) -> list[QueuedRun]:
        """The open entries, in the order in which their runs started to wait; all of them where there is no limit."""
        return self._queued(_OPEN_ENTRIES.limit(limit).offset(offset))

    def count_queue(self, *, first: int | None = None, due: datetime | None = None) -> int:
        """How many open entries there are; among the first ones alone, and of those due at a moment, where asked."""
        entries = _OPEN_ENTRIES.limit(first).subquery()
        return self._count(entries, *([] if due is None else [entries.c.not_before <= due]))

    def next_due(self, at: datetime) -> QueuedRun | None:
        """The first open entry whose time has come."""
        return next(iter(self._queued(_OPEN_ENTRIES.where(tables.queue.c.not_before <= at).limit(1))), None)

    def queue_entries(self, run_id: str) -> list[QueueRecord]:
        """Every time that a run was queued, oldest first."""
        query = _SELECT_QUEUE.where(tables.queue.c.run_id == run_id).order_by(tables.queue.c.number)
        return [_entry(row) for row in self._all(query)]

    def taken(self, since: datetime) -> list[QueueRecord]:
        """The newest entry of each run that was taken after `since`, of runs that were not cancelled."""
        later = tables.queue.alias("later")
        query = _SELECT_QUEUE.where(
            tables.queue_claims.c.at >= since,
            ~exists().where(later.c.run_id == tables.queue.c.run_id, later.c.number > tables.queue.c.number),
            ~exists().where(tables.cancellations.c.run_id == tables.queue.c.run_id),
        )
        return [_entry(row) for row in self._all(query)]

    def cancellation(self, run_id: str) -> Cancellation | None:
        row = self._one(select(tables.cancellations).where(tables.cancellations.c.run_id == run_id))
        return None if row is None else Cancellation(**fields(row))

    def _queued(self, query: Select[Any]) -> list[QueuedRun]:
        found = []
        for entry in [_entry(row) for row in self._all(query)]:
            run = self.run(entry.run_id)
            assert run is not None, "a foreign key says that every entry has its run"
            found.append(QueuedRun(entry, run))
        return found


class QueueWriter(QueueReader):
    def enqueue(
        self, run_id: str, at: datetime, reason: str, by: str, not_before: datetime | None = None
    ) -> QueueRecord:
        """Let a run wait for a runner, from `at` on or, where that is later, from `not_before`."""
        number = self._last(tables.queue.c.number, tables.queue.c.run_id == run_id) + 1
        entry = QueueRecord(run_id, number, at, not_before or at, reason, by)
        values = {name: value for name, value in vars(entry).items() if not name.startswith("claimed_")}
        self._add(tables.queue, **values)
        return entry

    def claim(self, entry: QueueRecord, at: datetime, by: str) -> None:
        """Take a waiting run; an entry is taken once."""
        self._add(tables.queue_claims, run_id=entry.run_id, number=entry.number, at=at, by=by)

    def cancel_run(self, run_id: str, at: datetime, by: str, reason: str) -> Cancellation:
        """A run is cancelled once; who asks again gets the first cancellation."""
        earlier = self.cancellation(run_id)
        if earlier is not None:
            return earlier
        cancellation = Cancellation(run_id, at, by, reason)
        self._add(tables.cancellations, **vars(cancellation))
        return cancellation


_SELECT_QUEUE = select(
    tables.queue, tables.queue_claims.c.at.label("claimed_at"), tables.queue_claims.c.by.label("claimed_by")
).outerjoin_from(tables.queue, tables.queue_claims)
_OPEN_ENTRIES = _SELECT_QUEUE.where(IS_OPEN).order_by(tables.queue.c.queued_at, tables.queue.c.run_id)


def _entry(row: Row[Any]) -> QueueRecord:
    return QueueRecord(**fields(row))
