"""Which documents a judgment on record was made from: those that were there when it was recorded.

A judgment says through which update it read. Files and the end of a session say when they came. A clock may have jumped
between them, so where these moments do not give the recorded bytes, its neighbours are tried as well.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product

from research_exchange.bundles.record import OutcomeEntry, RunRecord
from research_exchange.documents.run_document import RunDocument
from research_exchange.updates import fold

__all__ = ["moments"]

_MOST_TRIED = 24
"""Moments that are tried for one judgment; the first is the one that the times speak of."""


def moments(record: RunRecord, document: RunDocument, outcome: OutcomeEntry, through: int) -> Iterator[RunDocument]:
    """The documents as they may have been when an outcome was recorded, the likeliest first.

    Args:
        document: All documents of the run.
        through: The newest update that the recorded judgment read.
    """
    updates = tuple(update for update in document.updates if update.sequence <= through)
    reasons = [None] if fold(document.spec, updates).is_final else _reasons(record, outcome)
    for count, ended in islice(product(_counts(record, outcome, through), reasons), _MOST_TRIED):
        yield replace(document, updates=updates, evidence=document.evidence[:count], ended=ended)


def _counts(record: RunRecord, outcome: OutcomeEntry, through: int) -> list[int]:
    """How many files there may have been: all that came before the update that was read last, none that came after."""
    fewest = sum((file.update or file.after + 1) <= through for file in record.evidence)
    most = sum((file.update or file.after) <= through for file in record.evidence)
    by_time = sum(file.received_at <= outcome.recorded_at for file in record.evidence)
    likeliest = min(max(by_time, fewest), most)
    return sorted(range(fewest, most + 1), key=lambda count: abs(count - likeliest))


def _reasons(record: RunRecord, outcome: OutcomeEntry) -> list[str | None]:
    """Why the newest session may have ended by then; None where it went on."""
    begun = [session for session in record.sessions if session.started_at <= outcome.recorded_at]
    newest = begun[-1] if begun else None
    is_over = newest is not None and newest.ended_at is not None and newest.ended_at <= outcome.recorded_at
    likeliest = newest.reason if newest is not None and is_over else None
    others = [record.run.ended, *(session.reason for session in record.sessions), None]
    return list(dict.fromkeys([likeliest, *others]))
