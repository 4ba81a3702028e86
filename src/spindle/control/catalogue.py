"""The checkpoints and training runs on disk.

    <root>/runs/<run>/run.json
    <root>/runs/<run>/<kind>/<name>.json        the checkpoint: it exists if and only if this file does
    <root>/runs/<run>/<kind>/<name>.<8 hex>/    its files

Files are written into a fresh directory and put on the disk before the small JSON file that names the directory is
renamed into place. A crash at any moment therefore leaves the old checkpoint or the new one, whole; directories that
no JSON file names are swept when the catalogue is opened. A JSON file that cannot be read hides its checkpoint and
nothing else; the files it may name are kept.
"""

import logging
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spindle.backends.contract import ModelInfo, UserError
from spindle.control.durable import DRAFT, make_directory, sync_tree, write_atomically
from spindle.control.paths import CheckpointPath, Kind
from spindle.control.records import Checkpoint, SaveOptions, Staged, TrainingRun

logger = logging.getLogger(__name__)

SHORTEST_TTL, LONGEST_TTL = 3600, 10 * 366 * 86400
"""Seconds a checkpoint may be asked to live."""


def utc_now() -> datetime:
    return datetime.now(UTC)


class Catalogue:
    """Finds and publishes checkpoints. One process at a time may open a root."""

    def __init__(self, root: Path, *, now: Callable[[], datetime] = utc_now) -> None:
        self._runs = root / "runs"
        self._now = now
        make_directory(self._runs)
        self._sweep_unfinished()

    # ---- training runs

    def record(self, run: TrainingRun) -> None:
        """Write down a new training run."""
        folder = self._folder(run.run_id)
        make_directory(folder)
        write_atomically(folder / "run.json", run.to_json())

    def run(self, run_id: str) -> TrainingRun | None:
        path = self._folder(run_id) / "run.json"
        return TrainingRun.from_json(path.read_bytes()) if path.is_file() else None

    # ---- checkpoints

    def stage(self, path: CheckpointPath, info: ModelInfo, options: SaveOptions) -> Staged:
        """An empty directory for a checkpoint's files; `UserError` when it may not be saved under that name."""
        ttl = options.ttl_seconds
        if ttl is not None and not SHORTEST_TTL <= ttl <= LONGEST_TTL:
            raise UserError(f"ttl_seconds is {ttl}; expected {SHORTEST_TTL} (an hour) to {LONGEST_TTL} (10 years).")
        if not options.overwrite and self.get(path) is not None:
            raise UserError(f"{path} exists already: choose another name, or save with overwrite=True.")
        folder = self._folder(path.run) / path.kind
        make_directory(folder)
        directory = folder / f"{path.name}.{secrets.token_hex(4)}"
        directory.mkdir()
        return Staged(path, directory, info, options)

    def publish(self, staged: Staged) -> Checkpoint:
        """Make a written checkpoint durable and visible, in the place of an older one of that name."""
        sync_tree(staged.directory)
        pointer = self._pointer(staged.path)
        older = list(self._readable([pointer]))
        now, ttl = self._now(), staged.options.ttl_seconds
        checkpoint = Checkpoint(
            path=staged.path,
            directory=staged.directory,
            base_model=staged.info.base_model,
            lora=staged.info.lora,
            optimizer=staged.info.optimizer,
            step=staged.info.step,
            size_bytes=sum(file.stat().st_size for file in staged.directory.rglob("*") if file.is_file()),
            created_at=now,
            expires_at=None if ttl is None else now + timedelta(seconds=ttl),
            user_metadata=staged.options.user_metadata,
        )
        write_atomically(pointer, checkpoint.to_json())
        for replaced in older:
            shutil.rmtree(replaced.directory, ignore_errors=True)
        return checkpoint

    @contextmanager
    def discarding(self, staged: Staged) -> Iterator[None]:
        """Remove a staged directory when what is done inside fails."""
        try:
            yield
        except BaseException:
            shutil.rmtree(staged.directory, ignore_errors=True)
            raise

    def get(self, path: CheckpointPath) -> Checkpoint | None:
        """The checkpoint, if there is one that has not expired; `UserError` when what is known of it is damaged."""
        checkpoint = self._read(self._pointer(path))
        return None if checkpoint is None or self._expired(checkpoint) else checkpoint

    def find(self, path: CheckpointPath) -> Checkpoint:
        """The checkpoint, or `UserError`."""
        checkpoint = self.get(path)
        if checkpoint is None:
            raise UserError(f"There is no checkpoint {path} on this server.")
        return checkpoint

    def last_state(self, run_id: str) -> Checkpoint | None:
        """The newest saved state of a run, to continue from."""
        return max(self._of(run_id, Kind.TRAINING), key=lambda checkpoint: checkpoint.created_at, default=None)

    def delete_expired(self) -> None:
        """Remove checkpoints past their time."""
        for checkpoint in self._readable(self._runs.glob("*/*/*.json")):
            if self._expired(checkpoint):
                self._pointer(checkpoint.path).unlink(missing_ok=True)
                shutil.rmtree(checkpoint.directory, ignore_errors=True)

    # ---- files

    def _folder(self, run_id: str) -> Path:
        return self._runs / run_id.replace(":", "_")

    def _pointer(self, path: CheckpointPath) -> Path:
        return self._folder(path.run) / path.kind / f"{path.name}.json"

    def _read(self, pointer: Path) -> Checkpoint | None:
        try:
            return Checkpoint.from_json(pointer.read_bytes(), pointer.parent)
        except FileNotFoundError:
            return None
        except (ValueError, LookupError, TypeError, AttributeError, UserError) as error:
            raise UserError(
                f"{pointer}, which describes a checkpoint, is damaged ({error}); use another checkpoint. "
                "The files of this one are kept."
            ) from error

    def _readable(self, pointers: Iterable[Path]) -> Iterator[Checkpoint]:
        for pointer in pointers:
            with suppress(UserError):
                if (checkpoint := self._read(pointer)) is not None:
                    yield checkpoint

    def _expired(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.expires_at is not None and checkpoint.expires_at <= self._now()

    def _of(self, run_id: str, kind: Kind) -> Iterator[Checkpoint]:
        for checkpoint in self._readable((self._folder(run_id) / kind).glob("*.json")):
            if not self._expired(checkpoint):
                yield checkpoint

    def _sweep_unfinished(self) -> None:
        """Delete what a killed process left behind: drafts, and directories that no checkpoint names."""
        for folder in self._runs.glob("*/*"):
            if not folder.is_dir():
                continue
            named = {directory for pointer in folder.glob("*.json") for directory in self._named_by(pointer)}
            for path in folder.iterdir():
                if path.is_dir() and path not in named:
                    shutil.rmtree(path)
                elif path.name.endswith(DRAFT):
                    path.unlink()

    def _named_by(self, pointer: Path) -> list[Path]:
        """The directory of a checkpoint; every one that may be it when the file that says so is damaged."""
        try:
            checkpoint = self._read(pointer)
        except UserError as error:
            logger.warning("%s", error)
            return list(pointer.parent.glob(f"{pointer.stem}.????????"))
        return [] if checkpoint is None else [checkpoint.directory]
