"""What each owner may see and change of the catalogue: their own runs and checkpoints, and what others published.

A thing that may not be seen is not there: `NotFoundError`.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from spindle.backends.contract import UserError
from spindle.control.catalogue import Catalogue, utc_now
from spindle.control.errors import NotFoundError
from spindle.control.paths import CheckpointPath
from spindle.control.records import Checkpoint, TrainingRun


@dataclass
class Library:
    """The catalogue as one of several owners sees it."""

    catalogue: Catalogue
    _requests: dict[str, datetime] = field(default_factory=dict)
    """When a client last asked something of a run, since this process started."""
    _copying: threading.Lock = field(default_factory=threading.Lock)

    # ---- runs

    def runs(self, owner: str, *, others: bool = False, project_id: str | None = None) -> list[TrainingRun]:
        """An owner's runs, newest first; with `others` also those that have something public."""
        public = (
            {checkpoint.path.run for checkpoint in self.catalogue.checkpoints() if checkpoint.public} if others else ()
        )
        return [
            run
            for run in self.catalogue.index.runs()
            if (run.owner == owner or run.run_id in public) and project_id in (None, run.project_id)
        ]

    def run(self, owner: str, run_id: str) -> TrainingRun:
        """A run that is one's own, or has something public."""
        run = self.catalogue.run(run_id)
        if run is None or (run.owner != owner and not self.checkpoints(owner, run_id)):
            raise NotFoundError(f"There is no training run {run_id} on this server.")
        return run

    def requested(self, run_id: str) -> None:
        """A client asked something of a run."""
        self._requests[run_id] = utc_now()

    def last_request(self, run: TrainingRun) -> datetime:
        """When a client last asked something of a run; since before this process, when it last saved something."""
        saved = (checkpoint.created_at for checkpoint in self.catalogue.checkpoints(run.run_id)[:1])
        return self._requests.get(run.run_id) or max([run.created_at, *saved])

    # ---- checkpoints

    def checkpoints(self, owner: str, run_id: str | None = None) -> list[Checkpoint]:
        """Newest first: all of an owner, or what the owner may see of one run."""
        found = self.catalogue.checkpoints(run_id)
        if run_id is None:
            return [checkpoint for checkpoint in found if self.catalogue.owner(checkpoint.path.run) == owner]
        mine = self.catalogue.owner(run_id) == owner
        return [checkpoint for checkpoint in found if mine or checkpoint.public]

    def find(self, owner: str, path: CheckpointPath) -> Checkpoint:
        """A checkpoint that an owner may read."""
        checkpoint = self.catalogue.get(path)
        if checkpoint is None or not self._may_read(owner, checkpoint):
            raise NotFoundError(f"There is no checkpoint {path} on this server.")
        return checkpoint

    def own(self, owner: str, path: CheckpointPath) -> CheckpointPath:
        """The same path, if the owner may change what is there."""
        if self.catalogue.owner(path.run) != owner:
            raise NotFoundError(f"There is no checkpoint {path} on this server.")
        return path

    @contextmanager
    def reading(self, owner: str, path: CheckpointPath) -> Iterator[Checkpoint]:
        """A checkpoint that an owner may read, whose files stay until the end of the block; or `UserError`."""
        with self.catalogue.reading(path) as checkpoint:
            if not self._may_read(owner, checkpoint):
                raise UserError(f"There is no checkpoint {path} on this server.")
            yield checkpoint

    def copy(
        self, owner: str, source: CheckpointPath, run_id: str, project_id: str | None, ttl_seconds: int | None
    ) -> CheckpointPath:
        """Copy a checkpoint into a new run. Asking again for the same copy changes nothing."""
        target = CheckpointPath(run_id, source.kind, source.name)
        with self._copying:
            self.find(owner, source)
            known = self.catalogue.run(run_id)
            if known is None:
                known = self._run_of_copy(owner, source, run_id, project_id)
            elif (known.owner, known.copied_from) != (owner, str(source)):
                raise UserError(f"Training run {run_id} exists already: copy {source} to another one.")
            if self.catalogue.get(target) is None:
                self.catalogue.copy(source, known, ttl_seconds)
        return target

    def _run_of_copy(self, owner: str, source: CheckpointPath, run_id: str, project_id: str | None) -> TrainingRun:
        """Like the source's run, but for whose it is."""
        checkpoint, run = self.catalogue.find(source), self.catalogue.run(source.run)
        made = TrainingRun(run_id, checkpoint.base_model, checkpoint.lora, checkpoint.optimizer, utc_now())
        metadata = {} if run is None else run.user_metadata
        return replace(made, user_metadata=metadata, owner=owner, project_id=project_id, copied_from=str(source))

    def _may_read(self, owner: str, checkpoint: Checkpoint) -> bool:
        return checkpoint.public or self.catalogue.owner(checkpoint.path.run) == owner
