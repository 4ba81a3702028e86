"""The queue: which runs wait for a worker and why, who takes them, and how a person changes that (R-202)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from research_exchange.capacity import Requeue, first_reading
from research_exchange.server.errors import ApiError, unknown_run
from research_exchange.server.folding import Folds
from research_exchange.server.launching import Launched, give_token
from research_exchange.server.listing import ListedRun, listed
from research_exchange.store import (
    Cancellation,
    Clock,
    Identifiers,
    QueuedRun,
    QueueRecord,
    RunPhase,
    RunRecord,
    SessionRecord,
    Store,
    Writer,
)

ASKED_AGAIN = "Somebody asked for another session."
NEVER_BEGUN = "A worker took it and never began."
GIVEN_BACK = "housekeeping"
MOST_HELD = 200
"""Of the runs that ended last: how many are looked at for one that waits for a person."""
MAY_GO_ON = frozenset({Requeue.ELIGIBLE, Requeue.HUMAN})
"""What a final update may say of capacity for a fresh session to take the run up again (R-202)."""


@dataclass(frozen=True)
class Waiting:
    """An open entry of the queue, and why nobody has taken it yet."""

    queued: QueuedRun
    why: str
    """One sentence."""


class Queueing:
    """Runs that wait. What is decided is decided under the write lock: two workers never get one run."""

    def __init__(self, store: Store, clock: Clock, ids: Identifiers, folds: Folds) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._folds = folds

    def waiting(self, limit: int, offset: int) -> tuple[list[Waiting], int]:
        """Open entries, in the order in which their runs started to wait, and how many there are in all."""
        at = self._clock()
        with self._store.reading() as reader:
            entries, total = reader.queue(limit, offset), reader.count_queue()
            ahead = reader.count_queue(first=offset, due=at)
            under_way = reader.count_runs(phase=RunPhase.RUNNING)
        found = []
        for queued in entries:
            is_due = queued.entry.not_before <= at
            found.append(Waiting(queued, _in_turn(ahead, under_way) if is_due else _not_yet(queued.entry)))
            ahead += is_due
        return found, total

    def held(self) -> list[ListedRun]:
        """Of the runs that ended last, those that a person has to decide about, newest first."""
        with self._store.reading() as reader:
            ended = listed(reader, reader.runs(MOST_HELD, 0, phase=RunPhase.ENDED))
        return [each for each in ended if each.recorded is not None and each.recorded.waits_for_a_person is not None]

    def claim(self, by: str) -> Launched | None:
        """The next run whose time has come, for one worker alone, with a fresh token; None while none is due."""
        with self._store.writing() as writer:
            at = self._clock()
            due = writer.next_due(at)
            if due is None:
                return None
            writer.claim(due.entry, at, by)
            launched = Launched(due.run.id, due.run.spec_id, self._ids.runner_token())
            give_token(writer, launched, at, by)
        return launched

    def requeue(self, run_id: str, by: str, reason: str) -> QueueRecord:
        """Let a run wait for a fresh session, from now on; one that waits already need not wait for its time.

        Raises:
            ApiError: 409 for a run that is being worked on, was cancelled, or ended for good.
        """
        with self._store.writing() as writer:
            run = _known(writer, run_id)
            if refused := self._why_not_again(writer, run):
                raise ApiError(409, refused)
            at = self._clock()
            _take_back(writer, run_id, at)
            close_entry(writer, run_id, at, by)
            entry = writer.enqueue(run_id, at, reason or ASKED_AGAIN, by)
            writer.add_audit(at, by, "run.requeue", run_id, {"reason": entry.reason})
        return entry

    def give_back(self, run_id: str) -> None:
        """Queue a run again that a worker took and never began; whoever comes late finds that its token has ended."""
        with self._store.writing() as writer:
            run = _known(writer, run_id)
            if run.phase is not RunPhase.QUEUED and self._why_not_again(writer, run) is None:
                at = self._clock()
                _take_back(writer, run_id, at)
                writer.enqueue(run_id, at, NEVER_BEGUN, GIVEN_BACK)

    def cancel(self, run_id: str, by: str, reason: str) -> Cancellation:
        """Call a run off: it leaves the queue, and its runner learns of it with its next heartbeat.

        Raises:
            ApiError: 409 for a run that has ended.
        """
        with self._store.writing() as writer:
            run = _known(writer, run_id)
            if run.phase is RunPhase.ENDED:
                raise ApiError(409, f"Run {run_id} has ended; what is on record of it stays. Start a redo instead.")
            at = self._clock()
            if run.phase is not RunPhase.CANCELLED:
                writer.add_audit(at, by, "run.cancel", run_id, {"reason": reason})
            return writer.cancel_run(run_id, at, by, reason)

    def _why_not_again(self, writer: Writer, run: RunRecord) -> str | None:
        if run.phase is RunPhase.CANCELLED:
            return f"Run {run.id} was cancelled; start a redo instead."
        if run.phase is RunPhase.RUNNING:
            return f"Run {run.id} is being worked on; cancel it first, or wait until its session ends."
        state = self._folds.fold(writer, run).state
        if state.is_final and first_reading(state)[0] not in MAY_GO_ON:
            return f"Run {run.id} ended with its final update {state.final_update}; start a redo instead."
        return None


def has_begun(entry: QueueRecord, sessions: Sequence[SessionRecord]) -> bool:
    """Whether anybody sat down at a run since this entry of it was taken."""
    return entry.claimed_at is not None and bool(sessions) and sessions[-1].started_at >= entry.claimed_at


def _take_back(writer: Writer, run_id: str, at: datetime) -> None:
    """End the token of a worker who took a run and never began: whoever takes it next works on it alone.

    A claim and its token are made at the same moment. The token of one who began stays good, for what is in its spool.
    """
    entries = writer.queue_entries(run_id)
    if entries and entries[-1].claimed_at is not None and not has_begun(entries[-1], writer.sessions(run_id)):
        writer.revoke_runner_tokens(run_id, entries[-1].claimed_at, at)


def close_entry(writer: Writer, run_id: str, at: datetime, by: str) -> None:
    """Take a run's open entry out of the queue, where it has one."""
    for entry in writer.queue_entries(run_id):
        if entry.claimed_at is None:
            writer.claim(entry, at, by)


def _known(writer: Writer, run_id: str) -> RunRecord:
    run = writer.run(run_id)
    if run is None:
        raise unknown_run(run_id)
    return run


def _not_yet(entry: QueueRecord) -> str:
    return f"Not before {entry.not_before:%Y-%m-%d %H:%M} UTC. {entry.reason}"


def _in_turn(ahead: int, under_way: int) -> str:
    busy = {0: "no run is under way", 1: "1 run is under way"}.get(under_way, f"{under_way} runs are under way")
    turn = {0: "It is the next one", 1: "1 run is before it"}.get(ahead, f"{ahead} runs are before it")
    return f"{turn}, and {busy}; it starts when a worker has a free slot."
