"""What nobody asks for: sessions whose runner is dead come to an end, and no run is left without its outcome (R-067).

How long a runner has been silent is measured by this process' own steady clock, from when it first saw the sign of
life that is the last: neither a clock that jumps nor a server that was down makes a living runner look dead.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from research_exchange.server.door import BadSetting
from research_exchange.server.queueing import Queueing, has_begun
from research_exchange.server.recording import NOT_HEARD_OF, Recording
from research_exchange.store import Clock, QueueRecord, Reader, RunPhase, SessionEnd, SessionRecord, Store

log = logging.getLogger(__name__)

SILENT_AFTER = 120.0
"""Seconds without a heartbeat after which a session that had one is taken for dead."""
SILENT_AFTER_VARIABLE = "RX_SILENT_AFTER"
MOST_PATIENCE = 86_400
LEFTOVER_AFTER = 3600.0
"""Seconds after which an upload that was cut off is cleared away."""
LONGEST_PAUSE = 15.0
"""Seconds between two rounds; shorter where silence is to be noticed sooner."""
_LOOK_BACK = timedelta(days=1)
"""How far back a run may have been taken from the queue for a worker that never began."""


@dataclass(frozen=True)
class _Seen:
    """A sign of life, and when this process first saw it."""

    sign: object
    at: float


class Housekeeping:
    """One round of it is `tend`. Several servers over one store may each do it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        recording: Recording,
        queue: Queueing,
        silent_after: float = SILENT_AFTER,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._recording = recording
        self._queue = queue
        self._silent_after = silent_after
        self._steady = steady
        self._seen: dict[str, _Seen] = {}
        self.pause = min(LONGEST_PAUSE, silent_after / 4)
        """Seconds between two rounds."""

    def tend(self) -> None:
        """End silent sessions, give back what a dead worker took, and record what has ended."""
        with self._store.reading() as reader:
            sessions = {session.id: session for session in reader.open_sessions() if session.last_seen is not None}
            signs: dict[str, object] = {each.id: _sign(reader, each) for each in sessions.values()}
            taken = reader.taken(self._clock() - _LOOK_BACK)
            signs |= {entry.run_id: entry.number for entry in taken if not _began(reader, entry)}
        for name in self._silent(signs):
            if name in sessions:
                self._end(sessions[name])
            else:
                self._queue.give_back(name)
        self._recording.settle_all()
        self._store.blobs.remove_leftovers(LEFTOVER_AFTER)

    def _silent(self, signs: dict[str, object]) -> list[str]:
        """Of those that are watched, the ones without a new sign for too long."""
        now = self._steady()
        self._seen = {
            name: seen if (seen := self._seen.get(name)) is not None and seen.sign == sign else _Seen(sign, now)
            for name, sign in signs.items()
        }
        return [name for name, seen in self._seen.items() if now - seen.at >= self._silent_after]

    def _end(self, session: SessionRecord) -> None:
        reason = f"No heartbeat came for {self._silent_after:g} seconds: {NOT_HEARD_OF}"
        with self._store.writing() as writer:
            known = writer.session(session.id)
            if known is None or known.end is not None or known.last_seen != session.last_seen:
                return
            writer.end_session(session.id, SessionEnd(self._clock(), None, reason))
        log.warning("Session %s of %s is over. %s.", session.id, session.run_id, reason)
        self._recording.settle(session.run_id)


def patience(environment: Mapping[str, str] = os.environ) -> float:
    """How many seconds a session may be silent.

    Raises:
        BadSetting: `RX_SILENT_AFTER` is no number of seconds.
    """
    given = environment.get(SILENT_AFTER_VARIABLE, "").strip()
    if not given:
        return SILENT_AFTER
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= MOST_PATIENCE:
        raise BadSetting(f"{SILENT_AFTER_VARIABLE} is a number of seconds from 1 to {MOST_PATIENCE}; found {given!r}.")
    return float(given)


def _sign(reader: Reader, session: SessionRecord) -> object:
    """What changes while somebody is there: heartbeats, and what is posted."""
    return session.last_seen, reader.count_updates(session.run_id), len(reader.evidence(session.run_id))


def _began(reader: Reader, entry: QueueRecord) -> bool:
    """Whether anybody sat down at a run that was taken from the queue."""
    run = reader.run(entry.run_id)
    if run is None or run.phase not in (RunPhase.CREATED, RunPhase.ENDED) or entry.claimed_at is None:
        return True
    return has_begun(entry, reader.sessions(entry.run_id))
