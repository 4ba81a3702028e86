"""The whole control plane in one object, for the wire."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spindle.backends.contract import Backend, BaseModel
from spindle.control.catalogue import Catalogue, utc_now
from spindle.control.lost import Lost, session_of
from spindle.control.promises import Failure, Promise, PromiseBook, failed
from spindle.control.results import Result
from spindle.control.samplers import Samplers
from spindle.control.sessions import Sessions
from spindle.control.training import Training
from spindle.engine import Engine, Timing


@dataclass(frozen=True)
class Service:
    """What a client can reach."""

    engine: Engine
    catalogue: Catalogue
    sessions: Sessions
    promises: PromiseBook
    training: Training
    samplers: Samplers
    lost: Lost
    base_models: Sequence[BaseModel]

    @classmethod
    def build(cls, backend: Backend, data: Path, timing: Timing | None = None) -> "Service":
        """A service over one backend that keeps its checkpoints in `data`."""
        base_models = backend.base_models()
        engine, catalogue = Engine(backend, timing), Catalogue(data)
        sessions, promises = Sessions(), PromiseBook()
        lost = Lost(sessions, catalogue, utc_now())
        samplers = Samplers(engine, catalogue, sessions, promises, lost, base_models, data / "ephemeral")
        training = Training(engine, catalogue, sessions, promises, samplers, lost)
        return cls(engine, catalogue, sessions, promises, training, samplers, lost, base_models)

    async def outcome(self, request_id: str, timeout: float) -> Result | Failure | None:
        """How a promise ended, waited for at most `timeout` seconds; an unknown one has failed."""
        self.sessions.seen(session_of(request_id))
        promise = self.promises.get(request_id)
        if promise is None:
            promise = Promise(request_id, "", failed(self.lost.promise(request_id)))
        return await promise.outcome(timeout)

    def end_session(self, session_id: str) -> None:
        """Free what a session held; its named checkpoints stay. Ending it again is fine."""
        if self.sessions.end(session_id):
            self.training.close_session(session_id)
            self.samplers.close_session(session_id)

    def tidy(self) -> None:
        """End silent sessions, fail gaps, forget old results and samplers. To be called every few seconds."""
        for session_id in self.sessions.expired():
            self.end_session(session_id)
        self.engine.fail_gaps()
        self.promises.tidy(self.sessions.live())
        self.samplers.tidy()

    def delete_expired(self) -> None:
        """Remove checkpoints past their time. Reads what is known of all of them: to be called every few minutes."""
        self.engine.later(self.catalogue.delete_expired)

    def stop(self, grace: float) -> None:
        """Let the running command end, for at most `grace` seconds, and remove what does not outlive the process."""
        self.engine.stop(grace)
        shutil.rmtree(self.samplers.ephemeral, ignore_errors=True)
