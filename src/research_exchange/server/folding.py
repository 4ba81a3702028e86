"""The state of each run that is being looked at, kept between requests: a new update is added, not all folded anew.

Updates are only ever appended, so what was folded of a run's first updates stays true whoever adds the next one, be it
another process. What is kept is bounded; a run that is not kept is folded from its first update.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from research_exchange.documents.gates import Flag
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import Spec
from research_exchange.documents.update import StoredUpdate
from research_exchange.store import Reader, RunRecord
from research_exchange.updates import Folding

MAX_KEPT = 64
"""Runs; those that were not asked for the longest make room."""


@dataclass(frozen=True)
class Folded:
    """What a run's updates say together at one moment."""

    spec: Spec
    state: RunState
    malformed: Mapping[int, str]
    """For each update whose bytes are none, why (R-06A)."""


@dataclass(frozen=True)
class Remarks:
    """What the fold says on taking in one update."""

    flags: tuple[Flag, ...]
    is_final: bool
    """Whether the run has ended, by this update or by an earlier one."""


@dataclass
class _Kept:
    """The fold of one run, as far as it has come."""

    spec: Spec
    folding: Folding
    lock: Lock = field(default_factory=Lock)
    malformed: dict[int, str] = field(default_factory=dict)
    folded: Folded | None = None
    """Of this moment, once somebody has asked for it."""

    @classmethod
    def of(cls, spec: Spec) -> "_Kept":
        return cls(spec, Folding.of(spec))

    def add(self, update: StoredUpdate) -> tuple[Flag, ...]:
        self.folded = None
        if update.malformed is not None:
            self.malformed[update.sequence] = update.malformed
        return self.folding.add(update)

    def catch_up(self, reader: Reader, run_id: str) -> None:
        for update in reader.updates(run_id, after=self.folding.last_update):
            self.add(update)

    def result(self) -> Folded:
        if self.folded is None:
            self.folded = Folded(self.spec, self.folding.state(), dict(self.malformed))
        return self.folded


class Folds:
    """The folds of the runs that were asked for last. Safe to use from several threads.

    A transaction that appends an update asks after it has committed: what is rolled back must never have been folded.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = Lock()

    def fold(self, reader: Reader, run: RunRecord) -> Folded:
        """What the updates that a reader sees of a run say together."""
        kept = self._kept_of(reader, run)
        with kept.lock:
            kept.catch_up(reader, run.id)
            if kept.folding.last_update == reader.count_updates(run.id):
                return kept.result()
        # Somebody else has seen more than this reader, whose moment is an earlier one.
        earlier = _Kept.of(kept.spec)
        earlier.catch_up(reader, run.id)
        return earlier.result()

    def add(self, run_id: str, update: StoredUpdate) -> Remarks | None:
        """What is odd about the next update of a run, where the run is kept and the update follows what was folded."""
        with self._lock:
            kept = self._kept.get(run_id)
        if kept is None:
            return None
        with kept.lock:
            if kept.folding.last_update != update.sequence - 1:
                return None
            return Remarks(kept.add(update), is_final=kept.folding.final_update is not None)

    def remarks(self, reader: Reader, run: RunRecord, update: StoredUpdate) -> Remarks:
        """What is odd about one update that is on record."""
        state = self.fold(reader, run).state
        return Remarks(tuple(flag for flag in state.flags if flag.update == update.sequence), state.is_final)

    def _kept_of(self, reader: Reader, run: RunRecord) -> _Kept:
        with self._lock:
            kept = self._kept.get(run.id)
            if kept is not None:
                self._kept.move_to_end(run.id)
                return kept
        spec = reader.spec(run.spec_id)
        assert spec is not None, "a foreign key says that every run has its spec"
        made = _Kept.of(Spec.parse(spec.raw))
        with self._lock:
            kept = self._kept.setdefault(run.id, made)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return kept
