"""The whole control plane in one object, for the wire."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spindle.backends.contract import Backend, BaseModel
from spindle.control.catalogue import Catalogue, utc_now
from spindle.control.custom_losses import CustomLosses
from spindle.control.errors import NotFoundError
from spindle.control.history import History
from spindle.control.library import Library
from spindle.control.limits import Gauge, Limits
from spindle.control.links import Links
from spindle.control.lost import Lost, session_of
from spindle.control.paths import RUN
from spindle.control.pauses import Pauses
from spindle.control.promises import Promise, PromiseBook, failed
from spindle.control.samplers import Samplers
from spindle.control.sessions import SILENT, Finish, Sessions
from spindle.control.training import Training
from spindle.engine import Engine, Timing


@dataclass(frozen=True)
class Service:
    """What a client can reach."""

    engine: Engine
    catalogue: Catalogue
    library: Library
    links: Links
    sessions: Sessions
    history: History
    promises: PromiseBook
    training: Training
    samplers: Samplers
    losses: CustomLosses
    lost: Lost
    base_models: Sequence[BaseModel]
    limits: Limits
    public_url: str | None
    """Where clients elsewhere reach this server; None for the address that a request came to."""
    pauses: Pauses = field(default_factory=Pauses)

    @classmethod
    def build(
        cls,
        backend: Backend,
        data: Path,
        timing: Timing | None = None,
        limits: Limits | None = None,
        public_url: str | None = None,
    ) -> "Service":
        """A service over one backend that keeps its checkpoints in `data`."""
        limits = limits or Limits()
        base_models = backend.base_models()
        engine, catalogue = Engine(backend, timing), Catalogue(data, checkpoint_bytes=limits.checkpoint_bytes)
        library, links = Library(catalogue), Links(data, utc_now)
        sessions, promises = Sessions(limits.sessions), PromiseBook()
        lost = Lost(sessions, catalogue, utc_now())
        sequences = Gauge("queued_sequences", "samples", limits.queued_sequences)
        tokens = Gauge("queued_tokens", "tokens", limits.queued_tokens)
        samplers = Samplers(
            engine, catalogue, library, sessions, promises, lost, base_models, sequences, tokens, data / "ephemeral"
        )
        losses = CustomLosses(sessions, promises, lost, backend.check_custom_loss)
        training = Training(
            engine,
            catalogue,
            library,
            sessions,
            promises,
            samplers,
            lost,
            losses,
            tokens,
            backend.check_model,
            limits.models,
        )
        return cls(
            engine,
            catalogue,
            library,
            links,
            sessions,
            History(sessions, catalogue),
            promises,
            training,
            samplers,
            losses,
            lost,
            base_models,
            limits,
            public_url,
        )

    def promise(self, request_id: str) -> Promise:
        """The promise of that id; an unknown one has failed."""
        self.sessions.seen(session_of(request_id))
        promise = self.promises.get(request_id)
        return promise or Promise(request_id, "", failed(self.lost.promise(request_id)))

    def check_owner(self, identifier: str, owner: str) -> None:
        """`NotFoundError` for the id of somebody else's session or run, or of anything in one, also of long ago."""
        self.sessions.check_owner(session_of(identifier), owner)
        run = RUN.match(identifier)
        if run is not None and self.catalogue.run(run[0]) is not None and self.catalogue.owner(run[0]) != owner:
            raise NotFoundError(f"There is no training run {run[0]} of this key on this server.")

    def end_session(self, session_id: str, finish: Finish) -> None:
        """Free what a session held, and stop what it waits for; its named checkpoints stay. Ending it again is fine."""
        if self.sessions.end(session_id, finish):
            self.training.close_session(session_id)
            self.samplers.close_session(session_id)
            self.losses.close_session(session_id)
            self.promises.abandon(session_id)

    def tidy(self) -> None:
        """End silent sessions, fail gaps, forget old results and samplers. To be called every few seconds."""
        if paused := self.pauses.since_last_look():
            self.sessions.forgive(paused)
            self.engine.forgive(paused)
        for session_id in self.sessions.expired():
            self.end_session(session_id, SILENT)
        self.engine.fail_gaps()
        self.promises.tidy(self.sessions.live())
        self.samplers.tidy()

    def delete_expired(self) -> None:
        """Remove checkpoints past their time. To be called every few minutes."""
        self.engine.later(self.catalogue.delete_expired)

    def stop(self, grace: float) -> None:
        """Let the running command end, for at most `grace` seconds, and remove what does not outlive the process."""
        self.losses.stop()
        self.engine.stop(grace)
        shutil.rmtree(self.samplers.ephemeral, ignore_errors=True)
