"""Training runs: each client call becomes a command in its model's queue, and a promise."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from spindle.backends.contract import (
    AdamParams,
    Backend,
    ForwardBackward,
    LoraShape,
    ModelInfo,
    OptimizerConfig,
    UserError,
)
from spindle.control.catalogue import Catalogue, utc_now
from spindle.control.errors import NotFoundError
from spindle.control.lost import Lost, session_of
from spindle.control.paths import CheckpointPath, Kind, checked_name
from spindle.control.promises import Promise, PromiseBook
from spindle.control.records import Checkpoint, SaveOptions, Staged, TrainingRun
from spindle.control.results import ModelCreated, SamplerSaved, StateSaved, StepApplied, WeightsLoaded
from spindle.control.samplers import Samplers
from spindle.control.sessions import Sessions
from spindle.engine import Command, Engine, Work, refusal


@dataclass(frozen=True)
class NewModel:
    """Which model of which session is to be made; its id follows from both."""

    session_id: str
    number: int
    user_metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_id(self) -> str:
        return f"{self.session_id}:train:{self.number}"


@dataclass
class Training:
    """All training runs of this process."""

    engine: Engine
    catalogue: Catalogue
    sessions: Sessions
    promises: PromiseBook
    samplers: Samplers
    lost: Lost
    _infos: dict[str, ModelInfo | None] = field(default_factory=dict)
    """What is fixed about each live model and its step count; None until it is made. Kept here so that reading it
    never waits for a computation."""

    # ---- creation

    def create(self, new: NewModel, base_model: str, lora: LoraShape, optimizer: OptimizerConfig) -> Promise:
        """A fresh adapter on a base model."""

        def make(backend: Backend) -> None:
            backend.create_model(new.model_id, base_model, lora, optimizer)

        return self._open(new, make, ModelCreated(new.model_id))

    def create_from_state(
        self,
        new: NewModel,
        path: str,
        base_model: str | None,
        optimizer: OptimizerConfig | None,
        *,
        with_optimizer: bool,
    ) -> Promise:
        """A new model from a saved state; without its optimizer state it starts a fresh one."""

        def make(backend: Backend) -> None:
            state = self._state(path)
            if base_model is not None and base_model != state.base_model:
                raise UserError(f"{path} was trained on {state.base_model}, not on {base_model}.")
            if with_optimizer and optimizer is not None:
                raise UserError("A restored optimizer state keeps its configuration: leave optimizer_config out.")
            chosen = None if with_optimizer else optimizer or OptimizerConfig()
            backend.create_model_from_state(new.model_id, state.directory, chosen, with_optimizer=with_optimizer)

        return self._open(new, make, WeightsLoaded(path, new.model_id))

    def _open(self, new: NewModel, make: Callable[[Backend], None], result: Any) -> Promise:
        def run(backend: Backend) -> ModelInfo:
            make(backend)
            self._refresh(backend, new.model_id)
            return backend.info(new.model_id)

        def persist(info: ModelInfo) -> Any:
            run_record = TrainingRun(
                new.model_id, info.base_model, info.lora, info.optimizer, utc_now(), new.user_metadata
            )
            self.catalogue.record(run_record)
            return result

        def start() -> Future[Any]:
            if new.session_id not in self.sessions.live():
                raise self.lost.session(new.session_id)
            self._infos.setdefault(new.model_id, None)
            return self.engine.open(new.model_id, Work(run, persist))

        return self.promises.make(f"{new.model_id}:0", new.session_id, start)

    # ---- commands

    def forward_backward(self, sequence_id: int, command: ForwardBackward) -> Promise:
        """Add a gradient, or only evaluate the loss."""
        return self._submit(command.model_id, sequence_id, lambda: command)

    def optim_step(self, model_id: str, sequence_id: int, params: AdamParams) -> Promise:
        """Apply and clear the gradient."""

        def run(backend: Backend) -> StepApplied:
            metrics = backend.optim_step(model_id, params)
            self._refresh(backend, model_id)
            return StepApplied(metrics)

        return self._submit(model_id, sequence_id, lambda: Work(run))

    def load_state(self, model_id: str, sequence_id: int, path: str, *, with_optimizer: bool) -> Promise:
        """Put a saved state into a live model."""

        def run(backend: Backend) -> WeightsLoaded:
            backend.load_state(model_id, self._state(path).directory, with_optimizer=with_optimizer)
            self._refresh(backend, model_id)
            return WeightsLoaded(path, model_id)

        return self._submit(model_id, sequence_id, lambda: Work(run))

    def save_state(self, model_id: str, sequence_id: int, name: str | None, options: SaveOptions) -> Promise:
        """Keep weights and optimizer state under a name."""
        return self._submit(
            model_id,
            sequence_id,
            lambda: self._save(
                CheckpointPath(model_id, Kind.TRAINING, checked_name(name)),
                options,
                lambda backend, staged: backend.save_state(model_id, staged.directory),
                StateSaved,
            ),
        )

    def save_for_sampler(self, model_id: str, sequence_id: int, name: str | None, options: SaveOptions) -> Promise:
        """Keep the weights alone under a name."""
        return self._submit(
            model_id,
            sequence_id,
            lambda: self._save(
                CheckpointPath(model_id, Kind.SAMPLER, checked_name(name)),
                options,
                lambda backend, staged: backend.save_adapter(model_id, staged.directory),
                lambda path: SamplerSaved(path=path),
            ),
        )

    def snapshot(self, model_id: str, sequence_id: int, sampling_session: int) -> Promise:
        """An ephemeral snapshot with a sampling session on it."""

        def run(backend: Backend) -> SamplerSaved:
            directory = self.samplers.stage()
            backend.save_adapter(model_id, directory)
            base = backend.info(model_id).base_model
            sampler = self.samplers.open_ephemeral(model_id, sampling_session, base, directory)
            return SamplerSaved(sampling_session_id=sampler.sampler_id)

        return self._submit(model_id, sequence_id, lambda: Work(run))

    def refuse(self, model_id: str, sequence_id: int, error: UserError) -> Promise:
        """A request that makes no sense takes its place in the order, and fails there."""
        return self._submit(model_id, sequence_id, lambda: refusal(error))

    # ---- reading

    def info(self, model_id: str) -> ModelInfo:
        """What is fixed about a live model."""
        if model_id not in self._infos:
            raise NotFoundError(str(self.lost.model(model_id)))
        info = self._infos[model_id]
        if info is None:
            raise NotFoundError(f"Training run {model_id} is not there: it is being created, or its creation failed.")
        return info

    def close_session(self, session_id: str) -> None:
        """Free a session's models; their checkpoints stay."""
        for model_id in [model_id for model_id in self._infos if session_of(model_id) == session_id]:
            del self._infos[model_id]
            self.engine.close(model_id, str(self.lost.model(model_id)))

    # ---- inside

    def _submit(self, model_id: str, sequence_id: int, build: Callable[[], Command]) -> Promise:
        def start() -> Future[Any]:
            if model_id not in self._infos:
                raise self.lost.model(model_id)
            if sequence_id < 1:
                raise UserError(f"seq_id is {sequence_id}; the requests of a training run count from 1.")
            try:
                command = build()
            except UserError as error:
                command = refusal(error)
            return self.engine.submit(model_id, sequence_id, command)

        return self.promises.make(f"{model_id}:{sequence_id}", session_of(model_id), start)

    def _save(
        self,
        path: CheckpointPath,
        options: SaveOptions,
        write: Callable[[Backend, Staged], None],
        result: Callable[[str], StateSaved | SamplerSaved],
    ) -> Work:
        def run(backend: Backend) -> Staged:
            staged = self.catalogue.stage(path, backend.info(path.run), options)
            with self.catalogue.discarding(staged):
                write(backend, staged)
            return staged

        def persist(staged: Staged) -> StateSaved | SamplerSaved:
            with self.catalogue.discarding(staged):
                self.catalogue.publish(staged)
            return result(str(path))

        return Work(run, persist)

    def _state(self, text: str) -> Checkpoint:
        path = CheckpointPath.parse(text)
        if path.kind is not Kind.TRAINING:
            raise UserError(f"{text} is a sampler snapshot without training state; load one made by save_state.")
        return self.catalogue.find(path)

    def _refresh(self, backend: Backend, model_id: str) -> None:
        if model_id in self._infos:
            self._infos[model_id] = backend.info(model_id)
