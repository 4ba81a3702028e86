"""A catalogue with checkpoints in it, for tests of what is done with them."""

from datetime import UTC, datetime

from spindle.backends.contract import LoraShape, ModelInfo, OptimizerConfig
from spindle.control.catalogue import Catalogue
from spindle.control.paths import CheckpointPath, Kind
from spindle.control.records import LOCAL, Checkpoint, SaveOptions, TrainingRun

RUN = "0f3c:train:0"
INFO = ModelInfo(
    RUN, "org/base", "LlamaForCausalLM", LoraShape(rank=4, seed=9), OptimizerConfig("adamw", {"eps": 1e-8}), 3
)


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


def path(name: str = "last", kind: Kind = Kind.TRAINING, run: str = RUN) -> CheckpointPath:
    return CheckpointPath(run, kind, name)


def save(catalogue: Catalogue, where: CheckpointPath, content: str, options: SaveOptions | None = None) -> Checkpoint:
    staged = catalogue.stage(where, INFO, options or SaveOptions())
    with catalogue.discarding(staged):
        (staged.directory / "state").write_text(content)
        return catalogue.publish(staged)


def a_run(run: str = RUN, owner: str = LOCAL, project: str | None = None) -> TrainingRun:
    return TrainingRun(
        run, "org/base", INFO.lora, INFO.optimizer, datetime.now(UTC), {"renderer_name": "chat"}, owner, project
    )


def start_run(catalogue: Catalogue, run: str = RUN, owner: str = LOCAL, project: str | None = None) -> TrainingRun:
    made = a_run(run, owner, project)
    catalogue.record(made)
    return made
