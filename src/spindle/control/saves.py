"""Saving and restoring, as the work that a model's queue does."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from spindle.backends.contract import Backend, OptimizerConfig, UserError
from spindle.control.catalogue import Catalogue
from spindle.control.paths import CheckpointPath, Kind
from spindle.control.records import Checkpoint, SaveOptions, Staged
from spindle.engine import Work

Result = TypeVar("Result")


def save(
    catalogue: Catalogue,
    path: CheckpointPath,
    options: SaveOptions,
    write: Callable[[Backend, Path], None],
    result: Callable[[Checkpoint], Result],
    finish: Callable[[Path], None] = lambda _: None,
) -> Work:
    """Let the backend `write` into a directory; then, while other models go on, `finish` and publish it."""

    def run(backend: Backend) -> Staged:
        staged = catalogue.stage(path, backend.info(path.run), options)
        with catalogue.discarding(staged):
            write(backend, staged.directory)
        return staged

    def persist(staged: Staged) -> Result:
        with catalogue.discarding(staged):
            finish(staged.directory)
            return result(catalogue.publish(staged))

    return Work(run, persist)


def loadable(text: str, *, with_optimizer: bool) -> CheckpointPath:
    """The address of a checkpoint to train on from; `UserError` for one of the wrong kind."""
    path = CheckpointPath.parse(text)
    if path.kind is Kind.EXTERNAL:
        raise UserError(f"{text} is an export for other programs; load a state made by save_state.")
    if path.kind is Kind.SAMPLER and with_optimizer:
        raise UserError(
            f"{text} is a sampler snapshot without optimizer state; load a state made by save_state, "
            "or the weights alone (create_training_client_from_state)."
        )
    return path


def create_from(
    backend: Backend, model_id: str, saved: Checkpoint, optimizer: OptimizerConfig | None, *, with_optimizer: bool
) -> None:
    """A new model with the weights of a checkpoint; `optimizer` None keeps the saved one."""
    if saved.path.kind is Kind.TRAINING:
        backend.create_model_from_state(model_id, saved.directory, optimizer, with_optimizer=with_optimizer)
        return
    backend.create_model(model_id, saved.base_model, saved.lora, optimizer or saved.optimizer)
    try:
        backend.load_state(model_id, saved.directory, with_optimizer=False)
    except UserError:
        backend.unload_model(model_id)
        raise
