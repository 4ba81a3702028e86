"""What is known of training runs and checkpoints, in memory: filled once, then changed whenever the disk is.

One thread at a time may change it; others may read meanwhile. Listing costs no access to the disk.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from spindle.control.paths import CheckpointPath, Kind
from spindle.control.records import Checkpoint, TrainingRun


@dataclass
class Index:
    """Runs and checkpoints by their address, oldest first."""

    damaged: dict[CheckpointPath, str] = field(default_factory=dict)
    """Checkpoints whose description cannot be read, and a sentence about it."""
    damaged_runs: set[str] = field(default_factory=set)
    """Runs of which only their checkpoints tell."""
    _runs: dict[str, TrainingRun] = field(default_factory=dict)
    _checkpoints: dict[CheckpointPath, Checkpoint] = field(default_factory=dict)
    _of_run: dict[str, dict[CheckpointPath, Checkpoint]] = field(default_factory=dict)

    # ---- changing

    def put_run(self, run: TrainingRun) -> None:
        """Add a run, or what is new about it."""
        self._runs[run.run_id] = run

    def put(self, checkpoint: Checkpoint) -> Checkpoint | None:
        """Add a checkpoint, or replace the one of that address, which is returned. A new version goes last."""
        path = checkpoint.path
        older = self._checkpoints.get(path)
        if older is not None and older.directory != checkpoint.directory:
            self.remove(path)
        self.damaged.pop(path, None)
        self._checkpoints[path] = checkpoint
        self._of_run.setdefault(path.run, {})[path] = checkpoint
        return older

    def remove(self, path: CheckpointPath) -> None:
        self.damaged.pop(path, None)
        if self._checkpoints.pop(path, None) is not None:
            del self._of_run[path.run][path]

    # ---- reading

    def run(self, run_id: str) -> TrainingRun | None:
        return self._runs.get(run_id)

    def get(self, path: CheckpointPath) -> Checkpoint | None:
        return self._checkpoints.get(path)

    def runs(self) -> list[TrainingRun]:
        """All runs, newest first."""
        return list(self._runs.values())[::-1]

    def checkpoints(self, run_id: str | None = None) -> list[Checkpoint]:
        """All checkpoints, or those of one run, newest first."""
        known = self._checkpoints if run_id is None else self._of_run.get(run_id, {})
        return list(known.values())[::-1]

    def newest(self, run_id: str, kind: Kind, now: datetime) -> Checkpoint | None:
        """The last checkpoint of a kind that a run has."""
        return next((found for found in self._unexpired(run_id, now) if found.path.kind is kind), None)

    def corrupted(self, run_id: str) -> bool:
        """Whether something of a run cannot be read."""
        return run_id in self.damaged_runs or any(path.run == run_id for path in list(self.damaged))

    def _unexpired(self, run_id: str, now: datetime) -> Iterator[Checkpoint]:
        return (checkpoint for checkpoint in self.checkpoints(run_id) if not checkpoint.expired(now))
