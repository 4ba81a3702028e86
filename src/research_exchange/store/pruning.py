"""Retention: what may be thrown away after a while. Nothing that was acknowledged is among it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, func, or_, select

from research_exchange.store import tables
from research_exchange.store.records import DeliveryStatus
from research_exchange.store.store import Store

UNREFERENCED_FOR = timedelta(days=1)
"""Bytes are kept at least so long before a row must name them: they come before the row that does."""
_TOLD_ONCE = "gate.failed#"
"""What an event starts with that must be remembered: it happens again whenever somebody has an old run judged."""


@dataclass(frozen=True)
class Pruned:
    """How many of each kind were thrown away, or would be."""

    cached_judgments: int
    """They are made anew when somebody asks."""
    tokens: int
    """Ended or revoked."""
    deliveries: int
    """Of notifications that arrived or were given up."""
    attachments: int
    """Notes of who handed in what; their bytes are among the blobs, unless a document points to them."""
    blobs: int
    """That no row names: of uploads that were refused at last."""
    cut_off_uploads: int


def prune(store: Store, at: datetime, keep: timedelta, *, dry_run: bool = False) -> Pruned:
    """Throw away caches, ended tokens, delivery logs and unreferenced bytes.

    Args:
        store: May be in use meanwhile.
        at: The present moment.
        keep: Rows that are younger, or have been of no use for less long, stay.
        dry_run: Count, and throw nothing away.
    """
    before = at - keep
    with store.adding_rows() as connection:
        counts = {
            table.name: _prune_rows(connection, table, condition, dry_run=dry_run)
            for table, condition in _disposable(before)
        }
    return Pruned(
        cached_judgments=counts["judgment_cache"],
        tokens=counts["tokens"],
        deliveries=counts["deliveries"],
        attachments=counts["attachments"],
        blobs=_prune_blobs(store, dry_run=dry_run),
        cut_off_uploads=0 if dry_run else store.blobs.remove_leftovers(UNREFERENCED_FOR.total_seconds()),
    )


def _disposable(before: datetime) -> list[tuple[Table, ColumnElement[bool]]]:
    cache, tokens, deliveries = tables.judgment_cache.c, tables.tokens.c, tables.deliveries.c
    is_done = (deliveries.status != DeliveryStatus.PENDING.value) & (deliveries.at < before)
    return [
        (tables.judgment_cache, cache.made_at < before),
        (tables.tokens, or_(tokens.expires_at < before, tokens.revoked_at < before)),
        (tables.attachments, tables.attachments.c.received_at < before),
        (tables.deliveries, is_done & ~deliveries.event.startswith(_TOLD_ONCE) & _has_later_ones()),
    ]


def _has_later_ones() -> ColumnElement[bool]:
    """Of a delivery: the newest one of a hook stays, so that the next one gets a number that its receiver never saw."""
    deliveries, later = tables.deliveries, tables.deliveries.alias("later")
    return exists().where(later.c.hook_id == deliveries.c.hook_id, later.c.number > deliveries.c.number)


def _prune_rows(connection: Connection, table: Table, condition: ColumnElement[bool], *, dry_run: bool) -> int:
    count = connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one()
    if not dry_run:
        connection.execute(delete(table).where(condition))
    return count


def _prune_blobs(store: Store, *, dry_run: bool) -> int:
    # Listed before the rows are read: what a row comes to name meanwhile is younger than what is listed, or was renewed
    # since, which `remove` looks for.
    age = UNREFERENCED_FOR.total_seconds()
    old = set(store.blobs.digests(age))
    with store.snapshot() as connection:
        unreferenced = old - tables.blobs_named(connection)
    return len(unreferenced) if dry_run else sum(store.blobs.remove(digest, age) for digest in unreferenced)
