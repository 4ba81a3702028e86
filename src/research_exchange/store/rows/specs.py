"""Spec versions: the bytes that were registered, and where they came from (R-002, R-003)."""

from sqlalchemy import ColumnElement, select

from research_exchange.store import tables
from research_exchange.store.records import SpecRecord
from research_exchange.store.rows.transaction import Transaction, fields


class SpecReader(Transaction):
    def spec(self, spec_id: str) -> SpecRecord | None:
        return self._one_spec(tables.specs.c.id == spec_id)

    def spec_with_digest(self, sha256: str) -> SpecRecord | None:
        return self._one_spec(tables.specs.c.sha256 == sha256)

    def specs(self, limit: int, offset: int, idea_id: str | None = None) -> list[SpecRecord]:
        """Newest first; of one idea where it is named."""
        query = _SELECT_SPECS.where(*_of_idea(idea_id)).order_by(tables.specs.c.created_at.desc(), tables.specs.c.id)
        return [SpecRecord(**fields(row)) for row in self._all(query.limit(limit).offset(offset))]

    def count_specs(self, idea_id: str | None = None) -> int:
        return self._count(_SPECS, *_of_idea(idea_id))

    def _one_spec(self, condition: ColumnElement[bool]) -> SpecRecord | None:
        row = self._one(_SELECT_SPECS.where(condition))
        return None if row is None else SpecRecord(**fields(row))


class SpecWriter(SpecReader):
    def add_spec(self, spec: SpecRecord) -> None:
        self._add(
            tables.specs, id=spec.id, sha256=spec.sha256, title=spec.title, created_at=spec.created_at, raw=spec.raw
        )
        if spec.parent is not None or spec.idea_id is not None:
            self._add(
                tables.spec_origins,
                spec_id=spec.id,
                parent=spec.parent,
                idea_id=spec.idea_id,
                idea_snapshot=spec.idea_snapshot,
            )


_SPECS = tables.specs.outerjoin(tables.spec_origins, tables.spec_origins.c.spec_id == tables.specs.c.id)
_SELECT_SPECS = select(
    tables.specs, tables.spec_origins.c.parent, tables.spec_origins.c.idea_id, tables.spec_origins.c.idea_snapshot
).select_from(_SPECS)


def _of_idea(idea_id: str | None) -> tuple[ColumnElement[bool], ...]:
    return () if idea_id is None else (tables.spec_origins.c.idea_id == idea_id,)
