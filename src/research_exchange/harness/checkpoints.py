"""Named checkpoints of a training, so that a run that was interrupted goes on from the last one (`rx resume`).

    checkpoints = Checkpoints(run, "trained", seed=0, every=10)
    learner = checkpoints.learner(service, lambda: service.create_lora_training_client(...).result())
    for step in range(checkpoints.step, steps):
        ...one optimizer step...
        checkpoints.after(learner, step + 1)

Whatever else a loop remembers between its steps either follows from the step (seeds, the batch that comes next) or goes
into the notes, which are kept with the checkpoint they belong to.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tinker

from research_exchange.client import Run
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.service import rest_client
from research_exchange.harness.work import replace_file, work_folder

__all__ = ["Checkpoints", "TrainingState"]


@dataclass(frozen=True)
class TrainingState:
    """Where a training is, as it stands in its file."""

    run: str
    """The run it belongs to; no other goes on from here."""
    step: int
    """Optimizer steps that led to the checkpoint."""
    checkpoint: str
    """Weights and optimizer state, as a `tinker://` path."""
    resumed: int = 0
    """How often the training was taken up again so far: each time is a restore of the optimizer (R-097)."""
    notes: dict[str, Any] = field(default_factory=dict)


class Checkpoints:
    """Saves a training every so many steps, and takes it up again.

    A checkpoint is on the service's disk before the file here names it, and the file is replaced as a whole: wherever a
    run is interrupted, the file leads to a checkpoint that is complete. On a machine without the file, the Exchange's
    record leads to the last checkpoint, without its notes.
    """

    def __init__(
        self,
        run: Run,
        arm: str,
        *,
        every: int,
        seed: int = 0,
        folder: Path | None = None,
        ttl_seconds: int | None = None,
    ) -> None:
        """
        Args:
            every: Steps from one checkpoint to the next.
            folder: Where the state is kept; None for `work_folder`, which outlives a run's sessions.
            ttl_seconds: How long the service keeps each checkpoint; None for ever.

        Raises:
            HarnessError: if the folder holds the state of another run, or a file that is no state.
        """
        if every < 1:
            raise ValueError(f"Checkpoints are at least one step apart; found every={every}.")
        self._run = run
        self._arm = arm
        self._every = every
        self._ttl_seconds = ttl_seconds
        self._label = f"{quote(arm, safe='')}-seed{seed}"
        self.path = (folder or work_folder()) / f"training-{self._label}.json"
        self.state = self._read()
        """The last checkpoint; None before the first."""

    @property
    def step(self) -> int:
        """Steps that need not be taken again."""
        return self.state.step if self.state else 0

    @property
    def notes(self) -> dict[str, Any]:
        """What was noted with the last checkpoint."""
        return self.state.notes if self.state else {}

    def learner(
        self, service: tinker.ServiceClient, create: Callable[[], tinker.TrainingClient]
    ) -> tinker.TrainingClient:
        """A client that goes on from the last checkpoint, optimizer state included; a new one where there is none.

        Raises:
            HarnessError: if the service restored another optimizer than the one that was saved.
        """
        if self.state is None:
            return create()
        learner = service.create_training_client_from_state_with_optimizer(self.state.checkpoint).result()
        saved = rest_client(service).get_weights_info_by_tinker_path(self.state.checkpoint).result().optimizer_config
        _compare(saved.model_dump(mode="json"), learner.get_info().optimizer_config.model_dump(mode="json"))
        self._keep(TrainingState(**{**asdict(self.state), "resumed": self.state.resumed + 1}))
        return learner

    def after(self, learner: tinker.TrainingClient, step: int, **notes: Any) -> bool:
        """Save if it is time to, after so many steps in all; whether it was."""
        is_time = step % self._every == 0
        if is_time:
            self.save(learner, step, **notes)
        return is_time

    def save(self, learner: tinker.TrainingClient, step: int, **notes: Any) -> str:
        """Save weights and optimizer state, put the checkpoint on record, and return its path.

        Args:
            notes: Plain JSON values to go with the checkpoint.
        """
        checkpoint = learner.save_state(self._name(step), ttl_seconds=self._ttl_seconds).result().path
        self._keep(TrainingState(self._run.id, step, checkpoint, self.state.resumed if self.state else 0, notes))
        entry = {"arm": self._arm, "step": step, "uri": checkpoint}
        self._run.update(evidence={"version": 1, "files": [], "checkpoints": [entry], "per_arm_metrics": {}})
        return checkpoint

    def _name(self, step: int) -> str:
        return f"{self._label.replace('%', '_')}-step{step}"

    def _keep(self, state: TrainingState) -> None:
        replace_file(self.path, json.dumps(asdict(state), indent=2, allow_nan=False).encode() + b"\n")
        self.state = state

    def _read(self) -> TrainingState | None:
        if not self.path.exists():
            return self._on_record()
        try:
            state = TrainingState(**json.loads(self.path.read_bytes()))
        except (ValueError, TypeError):
            raise HarnessError(
                f"{self.path} holds no training state; remove it to go on from what is on record."
            ) from None
        if state.run != self._run.id:
            raise HarnessError(
                f"{self.path} holds the training of {state.run}, not of {self._run.id}; "
                "give this run a folder of its own (RX_WORK), or remove the file."
            )
        return state

    def _on_record(self) -> TrainingState | None:
        """By the newest of this training's checkpoints that was put on record (R-160)."""
        entries = (entry for evidence in self._run.reported("evidence") for entry in evidence.get("checkpoints", ()))
        for step, uri in ((entry["step"], entry["uri"]) for entry in entries):
            if uri.endswith(f"/weights/{self._name(step)}"):
                return TrainingState(self._run.id, step, uri)
        return None


def _compare(saved: dict[str, Any], restored: dict[str, Any]) -> None:
    """What both say of the optimizer is the same; a service that fell back to another one is found out here."""
    for name in saved.keys() & restored.keys():
        if saved[name] != restored[name]:
            raise HarnessError(
                f"The service restored an optimizer whose {name} is {restored[name]!r}; saved was {saved[name]!r}. "
                "Training on with it would be another training."
            )
