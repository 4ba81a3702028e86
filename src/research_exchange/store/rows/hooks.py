"""Where to tell of a run's events, and what became of each message."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, select, update

from research_exchange.store import tables
from research_exchange.store.records import DeliveryRecord, DeliveryStatus, HookKind, HookRecord
from research_exchange.store.rows.transaction import Transaction, fields


class HookReader(Transaction):
    def hooks(self, limit: int | None = None, offset: int = 0, *, with_removed: bool = False) -> list[HookRecord]:
        """Oldest first; all of them where there is no limit."""
        query = select(tables.hooks).order_by(tables.hooks.c.created_at, tables.hooks.c.id)
        if not with_removed:
            query = query.where(_IS_TOLD)
        return [_hook(row) for row in self._all(query.limit(limit).offset(offset))]

    def count_hooks(self) -> int:
        """Of those that were not removed."""
        return self._count(tables.hooks, _IS_TOLD)

    def hook(self, hook_id: str) -> HookRecord | None:
        row = self._one(select(tables.hooks).where(tables.hooks.c.id == hook_id))
        return None if row is None else _hook(row)

    def deliveries(
        self,
        limit: int,
        offset: int,
        hook_id: str | None = None,
        run_id: str | None = None,
        status: DeliveryStatus | None = None,
    ) -> list[DeliveryRecord]:
        """Newest first; of one hook, one run and with one status where these are named."""
        kept = tables.deliveries
        query = select(kept).where(*_such(hook_id, run_id, status))
        newest_first = query.order_by(kept.c.at.desc(), kept.c.hook_id, kept.c.number.desc())
        return [_delivery(row) for row in self._all(newest_first.limit(limit).offset(offset))]

    def count_deliveries(
        self, hook_id: str | None = None, run_id: str | None = None, status: DeliveryStatus | None = None
    ) -> int:
        return self._count(tables.deliveries, *_such(hook_id, run_id, status))


class HookWriter(HookReader):
    def add_hook(
        self, hook_id: str, kind: HookKind, url: str, secret_ref: str | None, events: Sequence[str], at: datetime
    ) -> HookRecord:
        hook = HookRecord(hook_id, kind, url, secret_ref, tuple(events), at)
        self._add(tables.hooks, **{**vars(hook), "kind": kind.value, "events": json.dumps(list(events))})
        return hook

    def remove_hook(self, hook_id: str, at: datetime) -> None:
        """Tell it nothing from now on; what it was told stays on record."""
        kept = tables.hooks
        self._connection.execute(
            update(kept).where(kept.c.id == hook_id, kept.c.removed_at.is_(None)).values(removed_at=at)
        )

    def add_delivery(self, hook_id: str, run_id: str, event: str, at: datetime) -> DeliveryRecord:
        """A message that is to be sent."""
        kept = tables.deliveries
        number = self._last(kept.c.number, kept.c.hook_id == hook_id) + 1
        delivery = DeliveryRecord(hook_id, number, run_id, event, at, 0, DeliveryStatus.PENDING, "")
        self._add(kept, **{**vars(delivery), "status": delivery.status.value})
        return delivery

    def set_delivery(
        self, delivery: DeliveryRecord, at: datetime, attempts: int, status: DeliveryStatus, detail: str
    ) -> None:
        """What became of an attempt to send a message."""
        kept = tables.deliveries
        this = (kept.c.hook_id == delivery.hook_id) & (kept.c.number == delivery.number)
        values = {"at": at, "attempts": attempts, "status": status.value, "detail": detail}
        self._connection.execute(update(kept).where(this).values(**values))


_IS_TOLD = tables.hooks.c.removed_at.is_(None)


def _hook(row: Row[Any]) -> HookRecord:
    return HookRecord(**fields(row, kind=HookKind, events=lambda kept: tuple(json.loads(kept))))


def _delivery(row: Row[Any]) -> DeliveryRecord:
    return DeliveryRecord(**fields(row, status=DeliveryStatus))


def _such(hook_id: str | None, run_id: str | None, status: DeliveryStatus | None) -> list[ColumnElement[bool]]:
    kept = tables.deliveries
    wanted = ((kept.c.hook_id, hook_id), (kept.c.run_id, run_id), (kept.c.status, status))
    return [column == value for column, value in wanted if value is not None]
