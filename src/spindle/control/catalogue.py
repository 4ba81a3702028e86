"""The checkpoints and training runs on disk.

    <root>/runs/<run>/run.json
    <root>/runs/<run>/<kind>/<name>.json        the checkpoint: it exists if and only if this file does
    <root>/runs/<run>/<kind>/<name>.<8 hex>/    its files, which never change

Files are written into a fresh directory and put on the disk before the small JSON file that names the directory is
renamed into place. A crash at any moment therefore leaves the old checkpoint or the new one, whole; directories that
no JSON file names are swept when the catalogue is opened. A JSON file that cannot be read hides its checkpoint and
nothing else; the files it may name are kept.

Every change goes to the disk first and then into the index that all reading is done from.
"""

import logging
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spindle.backends.contract import ModelInfo, UserError
from spindle.control.durable import make_directory, remove, sync_tree, write_atomically
from spindle.control.errors import NotFoundError
from spindle.control.index import Index
from spindle.control.leases import Leases
from spindle.control.loading import load, versions
from spindle.control.paths import CheckpointPath, Kind
from spindle.control.records import LOCAL, Checkpoint, SaveOptions, Staged, TrainingRun
from spindle.control.room import Room

logger = logging.getLogger(__name__)

SHORTEST_TTL, LONGEST_TTL = 3600, 10 * 366 * 86400
"""Seconds a checkpoint may be asked to live."""


def utc_now() -> datetime:
    return datetime.now(UTC)


class Catalogue:
    """Finds, publishes and changes checkpoints. One process at a time may open a root; several threads may call."""

    def __init__(
        self, root: Path, *, checkpoint_bytes: int | None = None, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._runs = root / "runs"
        self._now = now
        make_directory(self._runs)
        self.room = Room(root, checkpoint_bytes)
        self.index: Index = load(self._runs)
        self._leases = Leases()
        self._changing = threading.RLock()
        """Held while the disk and then the index change."""
        self._looking = threading.Lock()
        """Held for the moment in which the index changes, or something found in it gets a reader."""

    # ---- training runs

    def record(self, run: TrainingRun) -> None:
        """Write down a training run."""
        with self._changing:
            folder = self._folder(run.run_id)
            with self.room.writing(f"Training run {run.run_id}"):
                make_directory(folder)
                write_atomically(folder / "run.json", run.to_json())
            self.index.put_run(run)

    def run(self, run_id: str) -> TrainingRun | None:
        return self.index.run(run_id)

    def owner(self, run_id: str) -> str:
        """Whose a run is."""
        run = self.index.run(run_id)
        return LOCAL if run is None else run.owner

    def assign_project(self, session_id: str, project_id: str) -> None:
        """Move the runs of a session into a project."""
        with self._changing:
            for run in self.index.runs():
                if run.run_id.startswith(f"{session_id}:") and run.project_id != project_id:
                    self.record(replace(run, project_id=project_id))

    # ---- saving

    def stage(self, path: CheckpointPath, info: ModelInfo, options: SaveOptions) -> Staged:
        """An empty directory for a checkpoint's files; `UserError` when it may not be saved under that name."""
        checked_ttl(options.ttl_seconds)
        if not options.overwrite and self.get(path) is not None:
            raise UserError(f"{path} exists already: choose another name, or save with overwrite=True.")
        self.room.check_disk(str(path))
        with self.room.writing(str(path)):
            return Staged(path, self._fresh_directory(path), info, options)

    def publish(self, staged: Staged) -> Checkpoint:
        """Make a written checkpoint durable and visible, in the place of an older one of that name."""
        now = self._now()
        checkpoint = Checkpoint(
            path=staged.path,
            directory=staged.directory,
            base_model=staged.info.base_model,
            lora=staged.info.lora,
            optimizer=staged.info.optimizer,
            step=staged.info.step,
            size_bytes=sum(file.stat().st_size for file in staged.directory.rglob("*") if file.is_file()),
            created_at=now,
            expires_at=_end(now, staged.options.ttl_seconds),
            user_metadata=staged.options.user_metadata,
        )
        self._publish(checkpoint)
        return checkpoint

    @contextmanager
    def discarding(self, staged: Staged) -> Iterator[None]:
        """Remove a staged directory when what is done inside fails; a disk that is full is a `UserError`."""
        with self.room.writing(str(staged.path), staged.directory):
            yield

    def copy(self, source: CheckpointPath, run: TrainingRun, ttl_seconds: int | None) -> Checkpoint:
        """The same checkpoint in a new run of its own; both share the files where the disk can do that."""
        checked_ttl(ttl_seconds)
        target = CheckpointPath(run.run_id, source.kind, source.name)
        with self.reading(source) as checkpoint:
            self._check_room(target, checkpoint.size_bytes, None, run.owner)
            self.record(run)
            directory = self._fresh_directory(target)
            with self.room.writing(str(target), directory):
                for name, file in checkpoint.files().items():
                    (directory / name).parent.mkdir(parents=True, exist_ok=True)
                    _link(file, directory / name)
                now = self._now()
                copied = replace(
                    checkpoint,
                    path=target,
                    directory=directory,
                    created_at=now,
                    expires_at=_end(now, ttl_seconds),
                    public=False,
                )
                self._publish(copied)
        return copied

    # ---- finding

    def get(self, path: CheckpointPath) -> Checkpoint | None:
        """The checkpoint, if there is one that has not expired; `UserError` when what is known of it is damaged."""
        if (problem := self.index.damaged.get(path)) is not None:
            raise UserError(problem)
        checkpoint = self.index.get(path)
        return None if checkpoint is None or checkpoint.expired(self._now()) else checkpoint

    def find(self, path: CheckpointPath) -> Checkpoint:
        """The checkpoint, or `UserError`."""
        checkpoint = self.get(path)
        if checkpoint is None:
            raise UserError(f"There is no checkpoint {path} on this server.")
        return checkpoint

    def checkpoints(self, run_id: str | None = None) -> list[Checkpoint]:
        """What has not expired of all runs or one, newest first."""
        now = self._now()
        return [checkpoint for checkpoint in self.index.checkpoints(run_id) if not checkpoint.expired(now)]

    def newest(self, run_id: str, kind: Kind) -> Checkpoint | None:
        """The last checkpoint of a kind that a run has."""
        return self.index.newest(run_id, kind, self._now())

    def last_state(self, run_id: str) -> Checkpoint | None:
        """The newest saved state of a run, to continue from."""
        return self.newest(run_id, Kind.TRAINING)

    # ---- reading files

    @contextmanager
    def reading(self, path: CheckpointPath) -> Iterator[Checkpoint]:
        """The checkpoint, whose files stay until the end of the block whatever happens to it; or `UserError`."""
        with self._looking:
            checkpoint = self.find(path)
            self._leases.take(checkpoint.directory)
        try:
            yield checkpoint
        finally:
            self._leases.give_back(checkpoint.directory)

    def borrow(self, path: CheckpointPath, directory: Path) -> bool:
        """Keep a checkpoint's files until `give_back`; False when the checkpoint is gone or has others by now."""
        with self._looking:
            checkpoint = self.get(path)
            if checkpoint is None or checkpoint.directory != directory:
                return False
            self._leases.take(directory)
        return True

    def give_back(self, directory: Path) -> None:
        """End what `borrow` began."""
        self._leases.give_back(directory)

    # ---- changing

    def delete(self, path: CheckpointPath) -> None:
        """Remove a checkpoint; `NotFoundError` when there is none."""
        with self._changing:
            checkpoint = self.index.get(path)
            if checkpoint is None and path not in self.index.damaged:
                raise _missing(path)
            self._remove(path, [checkpoint.directory] if checkpoint else versions(self._pointer(path)))

    def expire_in(self, path: CheckpointPath, seconds: int | None) -> None:
        """Let a checkpoint end so many seconds from now, or never."""
        checked_ttl(seconds)
        with self._changing:
            self._replace(replace(self._found(path), expires_at=_end(self._now(), seconds)))

    def set_public(self, path: CheckpointPath, public: bool) -> None:
        """Let other owners read a checkpoint, or no longer."""
        with self._changing:
            if (checkpoint := self._found(path)).public is not public:
                self._replace(replace(checkpoint, public=public))

    def delete_expired(self) -> None:
        """Remove checkpoints past their time; one that cannot be removed does not keep the others."""
        with self._changing:
            for checkpoint in self.index.checkpoints():
                if checkpoint.expired(self._now()):
                    try:
                        self._remove(checkpoint.path, [checkpoint.directory])
                    except OSError:
                        logger.exception("%s has expired and cannot be removed; it is tried again", checkpoint.path)

    # ---- inside

    def _found(self, path: CheckpointPath) -> Checkpoint:
        checkpoint = self.get(path)
        if checkpoint is None:
            raise _missing(path)
        return checkpoint

    def _publish(self, checkpoint: Checkpoint) -> None:
        sync_tree(checkpoint.directory)
        path = checkpoint.path
        with self._changing:
            older = self.index.get(path)
            self._check_room(path, checkpoint.size_bytes, older, self.owner(path.run))
            write_atomically(self._pointer(path), checkpoint.to_json())
            with self._looking:
                self.index.put(checkpoint)
            if older is not None:
                self._leases.retire(older.directory)

    def _check_room(self, path: CheckpointPath, size: int, older: Checkpoint | None, owner: str) -> None:
        kept = [known for known in self.checkpoints() if known is not older]
        used = sum(known.size_bytes for known in kept)
        self.room.check(path, size, used, [known for known in kept if self.owner(known.path.run) == owner])

    def _replace(self, checkpoint: Checkpoint) -> None:
        with self.room.writing(f"The change of {checkpoint.path}"):
            write_atomically(self._pointer(checkpoint.path), checkpoint.to_json())
        with self._looking:
            self.index.put(checkpoint)

    def _remove(self, path: CheckpointPath, directories: list[Path]) -> None:
        remove(self._pointer(path))
        with self._looking:
            self.index.remove(path)
        for directory in directories:
            self._leases.retire(directory)

    def _folder(self, run_id: str) -> Path:
        return self._runs / run_id.replace(":", "_")

    def _pointer(self, path: CheckpointPath) -> Path:
        return self._folder(path.run) / path.kind / f"{path.name}.json"

    def _fresh_directory(self, path: CheckpointPath) -> Path:
        folder = self._folder(path.run) / path.kind
        make_directory(folder)
        directory = folder / f"{path.name}.{secrets.token_hex(4)}"
        directory.mkdir()
        return directory


def checked_ttl(seconds: int | None) -> None:
    """`UserError` when a checkpoint cannot live for so long."""
    if seconds is not None and not SHORTEST_TTL <= seconds <= LONGEST_TTL:
        raise UserError(f"ttl_seconds is {seconds}; expected {SHORTEST_TTL} (an hour) to {LONGEST_TTL} (10 years).")


def _end(now: datetime, seconds: int | None) -> datetime | None:
    return None if seconds is None else now + timedelta(seconds=seconds)


def _missing(path: CheckpointPath) -> NotFoundError:
    return NotFoundError(f"There is no checkpoint {path} on this server.")


def _link(source: Path, target: Path) -> None:
    """A second name for the same file; a copy where the disk cannot do that."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
