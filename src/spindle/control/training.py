"""Training runs: each client call becomes a command in its model's queue, and a promise."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from spindle.backends.contract import (
    Backend,
    ForwardBackward,
    LoraShape,
    ModelInfo,
    OptimizerConfig,
    OptimizerStep,
    UserError,
)
from spindle.control.catalogue import Catalogue, utc_now
from spindle.control.custom_losses import CUSTOM, CustomLosses
from spindle.control.encryption import encrypt_files, recipients
from spindle.control.errors import FullError, NotFoundError
from spindle.control.library import Library
from spindle.control.limits import LATER, Gauge
from spindle.control.lost import Lost, session_of
from spindle.control.paths import CheckpointPath, Kind, checked_name
from spindle.control.promises import Promise, PromiseBook, done
from spindle.control.records import SaveOptions, TrainingRun
from spindle.control.results import (
    ExternalSaved,
    ModelCreated,
    ModelUnloaded,
    SamplerSaved,
    StateSaved,
    StepApplied,
    WeightsLoaded,
)
from spindle.control.samplers import Samplers
from spindle.control.saves import create_from, loadable, save
from spindle.control.sessions import Sessions
from spindle.engine import Command, Engine, Work, refusal

CheckModel = Callable[[str, LoraShape, OptimizerConfig], None]


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
    library: Library
    sessions: Sessions
    promises: PromiseBook
    samplers: Samplers
    lost: Lost
    losses: CustomLosses
    tokens: Gauge
    """Tokens of training data and prompts that wait or are being computed."""
    check: CheckModel
    """Raises `UserError` for a model that cannot be made."""
    most: int
    """Live models."""
    _infos: dict[str, ModelInfo | None] = field(default_factory=dict)
    """What is fixed about each live model and its step count; None until it is made. Kept here so that reading it
    never waits for a computation."""
    _failed: set[str] = field(default_factory=set)
    """Those of them whose creation failed."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while one of these changes."""

    # ---- creation

    def create(self, new: NewModel, base_model: str, lora: LoraShape, optimizer: OptimizerConfig) -> Promise:
        """A fresh adapter on a base model. `UserError` at once for one that is not offered."""

        def make(backend: Backend) -> None:
            backend.create_model(new.model_id, base_model, lora, optimizer)

        return self._open(new, make, ModelCreated(new.model_id), lambda: self.check(base_model, lora, optimizer))

    def create_from_state(
        self,
        new: NewModel,
        path: str,
        base_model: str | None,
        optimizer: OptimizerConfig | None,
        *,
        with_optimizer: bool,
    ) -> Promise:
        """A new model from a saved state; without its optimizer state it starts a fresh one.

        `UserError` at once for an optimizer that is not offered.
        """

        def check() -> None:
            if optimizer is not None:
                source = loadable(path, with_optimizer=with_optimizer)
                with self.library.reading(self._owner(new.model_id), source) as saved:
                    self.check(saved.base_model, saved.lora, optimizer)

        def make(backend: Backend) -> None:
            source = loadable(path, with_optimizer=with_optimizer)
            with self.library.reading(self._owner(new.model_id), source) as saved:
                if base_model is not None and base_model != saved.base_model:
                    raise UserError(f"{path} was trained on {saved.base_model}, not on {base_model}.")
                if with_optimizer and optimizer is not None:
                    raise UserError("A restored optimizer state keeps its configuration: leave optimizer_config out.")
                chosen = None if with_optimizer else optimizer or OptimizerConfig()
                create_from(backend, new.model_id, saved, chosen, with_optimizer=with_optimizer)

        return self._open(new, make, WeightsLoaded(path, new.model_id), check)

    def _open(self, new: NewModel, make: Callable[[Backend], None], result: Any, check: Callable[[], None]) -> Promise:
        request_id = f"{new.model_id}:create"
        if (promise := self.promises.get(request_id)) is not None:
            return promise
        if new.session_id in self.sessions.live():
            check()

        def run(backend: Backend) -> ModelInfo:
            make(backend)
            self._refresh(backend, new.model_id)
            return backend.info(new.model_id)

        def persist(info: ModelInfo) -> Any:
            session = self.sessions.get(new.session_id)
            run_record = TrainingRun(
                new.model_id,
                info.base_model,
                info.lora,
                info.optimizer,
                utc_now(),
                new.user_metadata,
                session.owner,
                session.project_id,
            )
            self.catalogue.record(run_record)
            return result

        def start() -> Future[Any]:
            if new.session_id not in self.sessions.live():
                raise self.lost.session(new.session_id)
            if self.catalogue.run(new.model_id) is not None:
                raise UserError(f"Training run {new.model_id} exists already.")
            if len(self._infos.keys() - self._failed) >= self.most:
                raise FullError(
                    f"The server's limit models is reached: {self.most} training runs are live; "
                    "close the session of one, or wait until a silent one ends.",
                    "models",
                    LATER,
                )
            with self._lock:
                self._infos.setdefault(new.model_id, None)
                self._failed.discard(new.model_id)
            future = self.engine.open(new.model_id, Work(run, persist))
            future.add_done_callback(lambda made: self._not_created(new.model_id) if made.exception() else None)
            return future

        return self.promises.make(request_id, new.session_id, start)

    # ---- commands

    def forward_backward(self, sequence_id: int, command: ForwardBackward) -> Promise:
        """Add a gradient, or only evaluate the loss."""

        def build() -> ForwardBackward:
            if command.loss_fn != CUSTOM:
                return command
            return replace(command, custom=self.losses.resolve(command.config, command.model_id))

        tokens = sum(len(datum.tokens) for datum in command.data)
        return self._submit(command.model_id, sequence_id, build, tokens)

    def optim_step(self, model_id: str, sequence_id: int, step: OptimizerStep) -> Promise:
        """Apply and clear the gradient."""

        def run(backend: Backend) -> StepApplied:
            metrics = backend.optim_step(model_id, step)
            self._refresh(backend, model_id)
            return StepApplied(metrics)

        return self._submit(model_id, sequence_id, lambda: Work(run))

    def load_state(self, model_id: str, sequence_id: int, path: str, *, with_optimizer: bool) -> Promise:
        """Put a saved state into a live model."""

        def run(backend: Backend) -> WeightsLoaded:
            source = loadable(path, with_optimizer=with_optimizer)
            with self.library.reading(self._owner(model_id), source) as saved:
                backend.load_state(model_id, saved.directory, with_optimizer=with_optimizer)
            self._refresh(backend, model_id)
            return WeightsLoaded(path, model_id)

        return self._submit(model_id, sequence_id, lambda: Work(run))

    def save_state(self, model_id: str, sequence_id: int, name: str | None, options: SaveOptions) -> Promise:
        """Keep weights and optimizer state under a name."""
        return self._submit(
            model_id,
            sequence_id,
            lambda: save(
                self.catalogue,
                CheckpointPath(model_id, Kind.TRAINING, checked_name(name)),
                options,
                lambda backend, directory: backend.save_state(model_id, directory),
                lambda saved: StateSaved(str(saved.path)),
            ),
        )

    def save_for_sampler(self, model_id: str, sequence_id: int, name: str | None, options: SaveOptions) -> Promise:
        """Keep the weights alone under a name."""
        return self._submit(
            model_id,
            sequence_id,
            lambda: save(
                self.catalogue,
                CheckpointPath(model_id, Kind.SAMPLER, checked_name(name)),
                options,
                lambda backend, directory: backend.save_adapter(model_id, directory),
                lambda saved: SamplerSaved(path=str(saved.path)),
            ),
        )

    def save_external(
        self, model_id: str, sequence_id: int, name: str | None, options: SaveOptions, age_keys: Sequence[str] | None
    ) -> Promise:
        """Export the weights for other programs, encrypted to any of `age_keys` where those are given."""

        def build() -> Work:
            keys = None if age_keys is None else recipients(age_keys)
            return save(
                self.catalogue,
                CheckpointPath(model_id, Kind.EXTERNAL, checked_name(name)),
                options,
                lambda backend, directory: backend.save_adapter(model_id, directory),
                lambda saved: ExternalSaved(str(saved.path), saved.size_bytes),
                lambda directory: None if keys is None else encrypt_files(directory, keys),
            )

        return self._submit(model_id, sequence_id, build)

    def snapshot(self, model_id: str, sequence_id: int, sampling_session: int, *, follows: bool = False) -> Promise:
        """An ephemeral snapshot with a sampling session on it; the next one that `follows` replaces it, if it does."""

        def run(backend: Backend) -> SamplerSaved:
            with self.samplers.staged(model_id, sampling_session) as directory:
                backend.save_adapter(model_id, directory)
            base = backend.info(model_id).base_model
            sampler = self.samplers.open_ephemeral(model_id, sampling_session, base, directory, follows=follows)
            return SamplerSaved(sampling_session_id=sampler.sampler_id)

        return self._submit(model_id, sequence_id, lambda: Work(run))

    def refuse(self, model_id: str, sequence_id: int, error: UserError) -> Promise:
        """A request that makes no sense takes its place in the order, and fails there."""
        return self._submit(model_id, sequence_id, lambda: refusal(error))

    def unread(self, owner: str) -> None:
        """A request of this user's could not be read at all: do not wait long for it, whichever model it was for."""
        self.engine.hurry(model_id for model_id in list(self._infos) if self._owner(model_id) == owner)

    # ---- reading

    def info(self, model_id: str) -> ModelInfo:
        """What is fixed about a live model."""
        if model_id not in self._infos:
            raise NotFoundError(str(self.lost.model(model_id)))
        info = self._infos[model_id]
        if info is None:
            raise NotFoundError(f"Training run {model_id} is not there: it is being created, or its creation failed.")
        return info

    def of_session(self, session_id: str) -> list[str]:
        """The live models of a session."""
        return [model_id for model_id in list(self._infos) if session_of(model_id) == session_id]

    # ---- ending

    def unload(self, model_id: str) -> Promise:
        """Free a model before its session ends; what it has queued fails."""

        def start() -> Future[Any]:
            if model_id not in self._infos:
                raise self.lost.model(model_id)
            self._close(model_id, f"Training run {model_id} was unloaded by its client.")
            return done(ModelUnloaded(model_id))

        return self.promises.make(f"{model_id}:unload", session_of(model_id), start)

    def close_session(self, session_id: str) -> None:
        """Free a session's models; their checkpoints stay."""
        for model_id in self.of_session(session_id):
            self._close(model_id, str(self.lost.model(model_id)))

    def _close(self, model_id: str, reason: str) -> None:
        with self._lock:
            del self._infos[model_id]
            self._failed.discard(model_id)
        self.engine.close(model_id, reason)

    def _not_created(self, model_id: str) -> None:
        """Free what there is of a model whose creation failed."""
        with self._lock:
            if model_id in self._infos:
                self._infos[model_id] = None
                self._failed.add(model_id)
        self.engine.close(model_id, _not_made(model_id))

    # ---- inside

    def _submit(self, model_id: str, sequence_id: int, build: Callable[[], Command], tokens: int = 0) -> Promise:
        def start() -> Future[Any]:
            if model_id not in self._infos:
                raise self.lost.model(model_id)
            if model_id in self._failed:
                raise UserError(_not_made(model_id))
            if sequence_id < 1:
                raise UserError(f"seq_id is {sequence_id}; the requests of a training run count from 1.")
            self.library.requested(model_id)
            try:
                self._admit(model_id, sequence_id, tokens)
                command, held = build(), tokens
            except UserError as error:
                command, held = refusal(error), 0
            future = self.engine.submit(model_id, sequence_id, command)
            self.tokens.hold(held, future, model_id)
            return future

        return self.promises.make(f"{model_id}:{sequence_id}", session_of(model_id), start)

    def _admit(self, model_id: str, sequence_id: int, tokens: int) -> None:
        """Raises `BusyError` when the queues are full for now.

        Never for the command whose turn is next: those behind it wait for it. A client sends the first of many parts
        last, when the others were taken in; where those alone are too many, waiting would not help: a `UserError`.
        """
        following = self.engine.next_id(model_id)
        if following is None or sequence_id == following:
            return
        held = self.tokens.held_by(model_id)
        if held + tokens > self.tokens.most and self._awaits_request(model_id, following):
            raise UserError(
                f"The server's limit queued_tokens is {self.tokens.most}, and {held} tokens of this training run wait "
                f"for its request {following} already; send less than {self.tokens.most} tokens at a time."
            )
        self.tokens.admit(tokens)

    def _awaits_request(self, model_id: str, following: int) -> bool:
        """Whether a model can do nothing until a request comes that is not here yet."""
        latest = self.promises.get(f"{model_id}:{following - 1}")
        return self.promises.get(f"{model_id}:{following}") is None and (latest is None or latest.future.done())

    def _owner(self, model_id: str) -> str:
        return self.sessions.get(session_of(model_id)).owner

    def _refresh(self, backend: Backend, model_id: str) -> None:
        info = backend.info(model_id)
        with self._lock:
            if model_id in self._infos:  # else its session ended meanwhile
                self._infos[model_id] = info


def _not_made(model_id: str) -> str:
    return f"Training run {model_id} could not be created; the result of its creation says why."
