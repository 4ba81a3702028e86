"""Opening a catalogue: what lies on the disk, and what a killed process left there."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

from spindle.backends.contract import UserError
from spindle.control.durable import DRAFT
from spindle.control.index import Index
from spindle.control.paths import NAME, RUN, CheckpointPath, Kind
from spindle.control.records import Checkpoint, TrainingRun

logger = logging.getLogger(__name__)

_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, UserError)


def load(runs: Path) -> Index:
    """Sweep what is unfinished, and read everything else."""
    index = Index()
    checkpoints: list[Checkpoint] = []
    records: list[TrainingRun] = []
    for folder in (path for path in runs.iterdir() if path.is_dir()):
        run_id = folder.name.replace("_", ":")
        if not RUN.fullmatch(run_id):
            continue
        _sweep_drafts(folder)
        found = [checkpoint for kind in Kind for checkpoint in _read_kind(folder / kind, run_id, kind, index)]
        checkpoints += found
        if (record := _read_run(folder / "run.json", run_id, found, index)) is not None:
            records.append(record)
    for record in sorted(records, key=lambda record: record.created_at):
        index.put_run(record)
    for checkpoint in sorted(checkpoints, key=lambda checkpoint: checkpoint.created_at):
        index.put(checkpoint)
    return index


def _read_kind(folder: Path, run_id: str, kind: Kind, index: Index) -> Iterator[Checkpoint]:
    """The checkpoints of one kind; directories that none names are deleted."""
    if not folder.is_dir():
        return
    _sweep_drafts(folder)
    named: set[Path] = set()
    for pointer in folder.glob("*.json"):
        if not NAME.fullmatch(pointer.stem):
            continue
        path = CheckpointPath(run_id, kind, pointer.stem)
        try:
            checkpoint = Checkpoint.from_json(pointer.read_bytes(), folder)
            if checkpoint.path != path:
                raise ValueError(f"it describes {checkpoint.path}")
        except _DAMAGE as error:
            index.damaged[path] = (
                f"{pointer}, which describes a checkpoint, is damaged ({error}); use another checkpoint. "
                "The files of this one are kept."
            )
            logger.warning("%s", index.damaged[path])
            named.update(versions(pointer))
            continue
        named.add(checkpoint.directory)
        yield checkpoint
    for directory in folder.iterdir():
        if directory.is_dir() and directory not in named:
            shutil.rmtree(directory)


def _read_run(file: Path, run_id: str, checkpoints: list[Checkpoint], index: Index) -> TrainingRun | None:
    """What was written down about a run; what its checkpoints say about it where that cannot be read."""
    try:
        return TrainingRun.from_json(file.read_bytes())
    except (*_DAMAGE, FileNotFoundError) as error:
        if not checkpoints:
            return None
        logger.warning("%s, which describes a training run, cannot be read (%s).", file, error)
        index.damaged_runs.add(run_id)
        first = min(checkpoints, key=lambda checkpoint: checkpoint.created_at)
        return TrainingRun(run_id, first.base_model, first.lora, first.optimizer, first.created_at)


def versions(pointer: Path) -> list[Path]:
    """Every directory that may hold the files of a checkpoint."""
    return [path for path in pointer.parent.glob(f"{pointer.stem}.????????") if path.is_dir()]


def _sweep_drafts(folder: Path) -> None:
    for draft in folder.glob(f"*{DRAFT}"):
        draft.unlink()
