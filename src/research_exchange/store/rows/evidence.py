"""Evidence files by name, and those that were refused (R-009, R-164, R-169)."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select

from research_exchange.store import tables
from research_exchange.store.records import EvidenceRecord, RefusalRecord
from research_exchange.store.rows.transaction import Transaction


class EvidenceReader(Transaction):
    def evidence(self, run_id: str) -> list[EvidenceRecord]:
        """In the order in which they were accepted."""
        query = select(tables.evidence).where(tables.evidence.c.run_id == run_id).order_by(tables.evidence.c.position)
        return [_evidence(row) for row in self._all(query)]

    def evidence_named(self, run_id: str, name: str) -> EvidenceRecord | None:
        kept = tables.evidence
        row = self._one(select(kept).where(kept.c.run_id == run_id, kept.c.name == name))
        return None if row is None else _evidence(row)

    def refusals(self, run_id: str) -> list[RefusalRecord]:
        query = select(tables.refusals).where(tables.refusals.c.run_id == run_id).order_by(tables.refusals.c.number)
        return [
            RefusalRecord(row.name, tuple(json.loads(row.problems)), row.update_sequence, row.received_at)
            for row in self._all(query)
        ]

    def count_refusals(self, run_id: str) -> int:
        return self._last(tables.refusals.c.number, tables.refusals.c.run_id == run_id)


class EvidenceWriter(EvidenceReader):
    def add_evidence(self, run_id: str, file: EvidenceRecord) -> None:
        self._add(
            tables.evidence,
            run_id=run_id,
            name=file.name,
            position=self._last(tables.evidence.c.position, tables.evidence.c.run_id == run_id) + 1,
            kind=file.kind,
            sha256=file.sha256,
            size=file.size,
            update_sequence=file.update,
            received_at=file.received_at,
            after_update=file.after,
        )

    def add_refusal(self, run_id: str, name: str, problems: Sequence[str], update: int | None, at: datetime) -> None:
        self._add(
            tables.refusals,
            run_id=run_id,
            number=self.count_refusals(run_id) + 1,
            name=name,
            problems=json.dumps(list(problems)),
            update_sequence=update,
            received_at=at,
        )


def _evidence(row: Row[Any]) -> EvidenceRecord:
    return EvidenceRecord(
        row.name, row.kind, row.sha256, row.size, row.update_sequence, row.received_at, row.after_update
    )
