"""Lists of runs: for each where it stands and the verdict on record, without judging any of them anew.

And of the updates of one run, without their bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from research_exchange.capacity import Requeue
from research_exchange.documents.fields import as_mapping
from research_exchange.documents.json import JsonValue, parse
from research_exchange.documents.run_state import RunState
from research_exchange.server.errors import unknown_run
from research_exchange.server.folding import Folds
from research_exchange.server.recording import CANCELLATION, FINAL_UPDATE, LOST, PARTIAL
from research_exchange.store import OutcomeRecord, Reader, RunPhase, RunRecord, UpdateHead


class RunStanding(StrEnum):
    """Where a run stands, as a list shows it."""

    CREATED = "created"
    """Nobody has sat down at it yet."""
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    """By a final update."""
    PARTIAL = "partial"
    """Its session ended without one (R-067)."""
    LOST = "lost"
    """The same, because its runner fell silent."""
    CANCELLED = "cancelled"


_PHASES = {
    RunPhase.CREATED: RunStanding.CREATED,
    RunPhase.QUEUED: RunStanding.QUEUED,
    RunPhase.RUNNING: RunStanding.RUNNING,
    RunPhase.CANCELLED: RunStanding.CANCELLED,
}
_ENDS = {FINAL_UPDATE: RunStanding.FINISHED, LOST: RunStanding.LOST, CANCELLATION: RunStanding.CANCELLED}


@dataclass(frozen=True)
class Recorded:
    """What a list says of an outcome on record."""

    verdict: str | None
    reason: str | None
    withheld: bool
    waits_for_a_person: str | None
    """Why a person has to decide whether the run goes on (R-202); None where nobody has to."""


@dataclass(frozen=True)
class ListedRun:
    run: RunRecord
    standing: RunStanding
    recorded: Recorded | None
    """None before there is an outcome on record."""


@dataclass(frozen=True)
class Listing:
    """One page of runs, newest first."""

    runs: tuple[ListedRun, ...]
    total: int


def list_runs(
    reader: Reader, limit: int, offset: int, spec_id: str | None = None, standing: RunStanding | None = None
) -> Listing:
    """Runs newest first; of one spec version, and where they stand, if these are named."""
    phase, ended_by = _asked(standing)
    found = reader.runs(limit, offset, spec_id, phase, ended_by)
    return Listing(tuple(listed(reader, found)), reader.count_runs(spec_id, phase, ended_by))


@dataclass(frozen=True)
class ListedUpdates:
    """One page of the updates of a run, and what they fold to, at one moment."""

    run: RunRecord
    heads: list[UpdateHead]
    malformed: Mapping[int, str]
    """For each update of the run that is none, why (R-06A)."""
    state: RunState
    total: int


def list_updates(
    reader: Reader, folds: Folds, run_id: str, limit: int, offset: int, *, newest_first: bool = False
) -> ListedUpdates:
    """Updates of a run in order of receipt, or against it.

    Raises:
        ApiError: 404 for a run that is not known.
    """
    run = reader.run(run_id)
    if run is None:
        raise unknown_run(run_id)
    folded = folds.fold(reader, run)
    heads = reader.update_heads(run_id, limit, offset, newest_first)
    return ListedUpdates(run, heads, folded.malformed, folded.state, reader.count_updates(run_id))


def listed(reader: Reader, runs: Sequence[RunRecord]) -> list[ListedRun]:
    """What a list says of these runs, in their order."""
    names = [run.id for run in runs]
    ends, outcomes = reader.ends(names), reader.standing_outcomes(names)
    return [ListedRun(run, _standing(run, ends.get(run.id)), _perhaps(outcomes.get(run.id))) for run in runs]


def _asked(standing: RunStanding | None) -> tuple[RunPhase | None, str | None]:
    """The phase, and what the cause of the end starts with, of runs that stand so."""
    for phase, each in _PHASES.items():
        if each is standing:
            return phase, None
    causes = {RunStanding.FINISHED: FINAL_UPDATE, RunStanding.LOST: LOST, RunStanding.PARTIAL: PARTIAL}
    return (None, None) if standing is None else (RunPhase.ENDED, causes[standing])


def _standing(run: RunRecord, end: str | None) -> RunStanding:
    if run.phase in _PHASES:
        return _PHASES[run.phase]
    return next((standing for cause, standing in _ENDS.items() if (end or "").startswith(cause)), RunStanding.PARTIAL)


def _perhaps(outcome: OutcomeRecord | None) -> Recorded | None:
    return None if outcome is None else recorded_of(outcome)


def recorded_of(outcome: OutcomeRecord) -> Recorded:
    """What an outcome on record says, in short."""
    return _read(outcome.judgment)


@lru_cache(maxsize=256)
def _read(judgment: bytes) -> Recorded:
    """A judgment on record never changes; a list asks for the same ones again and again."""
    judged = as_mapping(parse(judgment))
    capacity = as_mapping(judged.get("capacity"))
    return Recorded(
        verdict=_text(judged.get("recorded_verdict")),
        reason=_text(judged.get("outcome_reason")),
        withheld=judged.get("withheld") is True,
        waits_for_a_person=_text(capacity.get("reason")) if capacity.get("requeue") == Requeue.HUMAN else None,
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
