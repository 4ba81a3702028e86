"""The list of runs: for each what stands on record, without judging any of them anew."""

from dataclasses import dataclass
from datetime import datetime

from research_exchange.server.views import recorded_judgment
from research_exchange.store import Reader, RunRecord


@dataclass(frozen=True)
class ListedRun:
    run: RunRecord
    verdict: str | None
    """On record; None before there is one."""
    withheld: bool
    updates: int
    last_heard: datetime | None


@dataclass(frozen=True)
class Listing:
    runs: tuple[ListedRun, ...]
    total: int
    offset: int
    limit: int

    @property
    def newer(self) -> int | None:
        """The offset of the page before this one."""
        return max(0, self.offset - self.limit) if self.offset else None

    @property
    def older(self) -> int | None:
        following = self.offset + self.limit
        return following if following < self.total else None


def list_runs(reader: Reader, limit: int, offset: int) -> Listing:
    runs = tuple(_listed(reader, run) for run in reader.runs(limit, offset))
    return Listing(runs, reader.count_runs(), offset, limit)


def _listed(reader: Reader, run: RunRecord) -> ListedRun:
    outcomes, last = reader.outcomes(run.id), reader.last_update(run.id)
    recorded = recorded_judgment(outcomes[-1]) if outcomes else None
    return ListedRun(
        run=run,
        verdict=str(recorded["recorded_verdict"]) if recorded else None,
        withheld=bool(recorded and recorded["withheld"]),
        updates=last.sequence if last else 0,
        last_heard=last.received_at if last else None,
    )
