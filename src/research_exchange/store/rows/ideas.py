"""Ideas and what was said of them, from first to last (R-001, R-003)."""

from datetime import datetime

from sqlalchemy import select

from research_exchange.store import tables
from research_exchange.store.records import IdeaRecord, SnapshotRecord
from research_exchange.store.rows.transaction import Transaction, fields


class IdeaReader(Transaction):
    def idea(self, idea_id: str) -> IdeaRecord | None:
        row = self._one(select(tables.ideas).where(tables.ideas.c.id == idea_id))
        return None if row is None else IdeaRecord(**fields(row))

    def idea_with_source(self, source_key: str) -> IdeaRecord | None:
        """The idea that was made from this message, so that its redelivery makes no second one."""
        row = self._one(select(tables.ideas).where(tables.ideas.c.source_key == source_key))
        return None if row is None else IdeaRecord(**fields(row))

    def ideas(self, limit: int, offset: int) -> list[IdeaRecord]:
        """Newest first."""
        query = select(tables.ideas).order_by(tables.ideas.c.created_at.desc(), tables.ideas.c.id)
        return [IdeaRecord(**fields(row)) for row in self._all(query.limit(limit).offset(offset))]

    def count_ideas(self) -> int:
        return self._count(tables.ideas)

    def snapshots(self, idea_id: str, limit: int, offset: int, newest_first: bool = False) -> list[SnapshotRecord]:
        """Oldest first, or newest first; the newest one is the idea's current text."""
        kept = tables.idea_snapshots
        order = kept.c.number.desc() if newest_first else kept.c.number
        query = select(kept).where(kept.c.idea_id == idea_id).order_by(order)
        return [SnapshotRecord(**fields(row)) for row in self._all(query.limit(limit).offset(offset))]

    def had_triage(self, idea_id: str, triage: str) -> bool:
        """Whether an idea was ever sorted with these words."""
        kept = tables.idea_snapshots
        return self._count(kept, kept.c.idea_id == idea_id, kept.c.triage == triage) > 0

    def snapshot(self, idea_id: str, number: int) -> SnapshotRecord | None:
        kept = tables.idea_snapshots
        row = self._one(select(kept).where(kept.c.idea_id == idea_id, kept.c.number == number))
        return None if row is None else SnapshotRecord(**fields(row))

    def current_snapshot(self, idea_id: str) -> SnapshotRecord | None:
        return self.snapshot(idea_id, self._last_snapshot(idea_id))

    def _last_snapshot(self, idea_id: str) -> int:
        return self._last(tables.idea_snapshots.c.number, tables.idea_snapshots.c.idea_id == idea_id)


class IdeaWriter(IdeaReader):
    def add_idea(self, idea: IdeaRecord) -> None:
        self._add(tables.ideas, **vars(idea))

    def add_snapshot(
        self,
        idea_id: str,
        at: datetime,
        author: str,
        title: str,
        summary: str | None = None,
        source_url: str | None = None,
        triage: str | None = None,
    ) -> SnapshotRecord:
        """What the idea says from now on, under its next number."""
        number = self._last_snapshot(idea_id) + 1
        snapshot = SnapshotRecord(idea_id, number, at, author, title, summary, source_url, triage)
        self._add(tables.idea_snapshots, **vars(snapshot))
        return snapshot
