"""Sampling sessions: a base model, a named snapshot, or an ephemeral one that lives as long as its session."""

import shutil
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from spindle.backends.contract import Array, BaseModel, SampleRequest, SamplingParams, UserError
from spindle.control.catalogue import Catalogue
from spindle.control.completions import CLONE, Completion, Completions
from spindle.control.errors import GoneError, NotFoundError
from spindle.control.leases import Leases
from spindle.control.library import Library
from spindle.control.limits import Gauge
from spindle.control.lost import Lost, session_of
from spindle.control.paths import CheckpointPath, Kind
from spindle.control.promises import Promise, PromiseBook, failed
from spindle.control.results import Cells
from spindle.control.sessions import Sessions
from spindle.engine import Engine

KEEP_SNAPSHOTS = 32
IDLE_SNAPSHOT = 900.0
"""An ephemeral snapshot goes when it was idle for this many seconds and its run has `KEEP_SNAPSHOTS` newer ones.

At 43 MiB each (rank 32 on the default model) an hour of six-second steps would otherwise fill 26 GB.
"""


@dataclass
class Sampler:
    """A sampling session."""

    sampler_id: str
    session_id: str
    base_model: str
    adapter: Path | None = None
    model_path: str | None = None
    ephemeral_of: str | None = None
    """The training run that an ephemeral snapshot was taken from."""
    follows: bool = False
    """Whether the next snapshot of that kind replaces the weights of this one."""
    last_used: float = 0.0
    clients: int = 1
    """Clients that sample from it; a clone asks for its number by joining."""
    completions: defaultdict[int, Completions] = field(default_factory=lambda: defaultdict(Completions))
    """What ended, by client."""


@dataclass(frozen=True)
class Prompt:
    """What a client asks to sample; the sampling session adds the model."""

    tokens: Array
    """int64 [P]"""
    num_samples: int
    params: SamplingParams
    prompt_logprobs: bool = False
    prompt_logprobs_last_n: int | None = None
    topk_prompt_logprobs: int = 0
    topk_sample_logprobs: int = 0
    target_prompt_logprobs: Array | None = None
    """int64 [P - 1, K]"""
    prompt_alt_tokens_k: int = 0
    cells: Cells | None = None
    """The cells of `target_prompt_logprobs` that were listed, where it came sparse."""

    def request(self, base_model: str, adapter: Path | None) -> SampleRequest:
        return SampleRequest(
            base_model=base_model,
            adapter=adapter,
            prompt=self.tokens,
            num_samples=self.num_samples,
            params=self.params,
            prompt_logprobs=self.prompt_logprobs,
            prompt_logprobs_last_n=self.prompt_logprobs_last_n,
            topk_prompt_logprobs=self.topk_prompt_logprobs,
            topk_sample_logprobs=self.topk_sample_logprobs,
            target_prompt_logprobs=self.target_prompt_logprobs,
            prompt_alt_tokens_k=self.prompt_alt_tokens_k,
        )


@dataclass
class Samplers:
    """All sampling sessions of this process."""

    engine: Engine
    catalogue: Catalogue
    library: Library
    sessions: Sessions
    promises: PromiseBook
    lost: Lost
    base_models: Sequence[BaseModel]
    sequences: Gauge
    """Samples that were asked for and have not ended."""
    tokens: Gauge
    """Tokens of prompts and training data that wait or are being computed."""
    ephemeral: Path
    """Folder of ephemeral snapshots; emptied at start."""
    clock: Callable[[], float] = time.monotonic
    _samplers: dict[str, Sampler] = field(default_factory=dict)
    _leases: Leases = field(default_factory=Leases)
    _moving: threading.Lock = field(default_factory=threading.Lock)
    """Held while samplers get other weights, or a request takes those that a sampler has."""

    def __post_init__(self) -> None:
        shutil.rmtree(self.ephemeral, ignore_errors=True)
        self.ephemeral.mkdir(parents=True)

    # ---- opening and finding

    def create(self, session_id: str, number: int, base_model: str | None, model_path: str | None) -> Sampler:
        """Open a sampling session on a base model or a named snapshot; a repeated number gives the same one."""
        if session_id not in self.sessions.live():
            raise GoneError(str(self.lost.session(session_id)))
        sampler_id = f"{session_id}:sample:{number}"
        if sampler_id in self._samplers:
            return self._samplers[sampler_id]
        if model_path is None:
            if base_model is None:
                raise UserError("A sampling session needs base_model or model_path; neither was given.")
            sampler = Sampler(sampler_id, session_id, self._served(base_model))
        else:
            sampler = self._from_snapshot(sampler_id, session_id, model_path, base_model)
        return self._keep(sampler)

    @contextmanager
    def staged(self, model_id: str, number: int) -> Iterator[Path]:
        """An empty directory for the ephemeral snapshot of that number; it goes when writing it fails."""
        if (sampler_id := _ephemeral(model_id, number)) in self._samplers:
            raise UserError(f"Sampling session {sampler_id} exists already: give the next one another number.")
        room, what = self.catalogue.room, "A sampler snapshot"
        room.check_disk(what)
        directory = self.ephemeral / uuid.uuid4().hex
        with room.writing(what, directory):
            directory.mkdir()
            yield directory

    def open_ephemeral(
        self, model_id: str, number: int, base_model: str, directory: Path, *, follows: bool = False
    ) -> Sampler:
        """Open a sampling session on a snapshot just written. One that `follows` moves its run's earlier ones along."""
        sampler_id = _ephemeral(model_id, number)
        opened = self._keep(
            Sampler(sampler_id, session_of(model_id), base_model, directory, ephemeral_of=model_id, follows=follows)
        )
        if follows:
            self._move(model_id, directory)
        return opened

    def get(self, sampler_id: str) -> Sampler:
        sampler = self._samplers.get(sampler_id)
        if sampler is None:
            raise NotFoundError(str(self.lost.sampler(sampler_id)))
        return sampler

    def of_session(self, session_id: str) -> list[str]:
        """The ids of a session's sampling sessions."""
        return [sampler.sampler_id for sampler in list(self._samplers.values()) if sampler.session_id == session_id]

    def join(self, sampler_id: str) -> int:
        """The number of a further client of the same sampling session."""
        sampler = self.get(sampler_id)
        number, sampler.clients = sampler.clients, sampler.clients + 1
        return number

    # ---- sampling

    def sample(self, sampler_id: str, sequence_id: int, prompt: Prompt) -> Promise:
        """Queue one request."""

        def start() -> Future[Any]:
            sampler = self._samplers.get(sampler_id)
            if sampler is None:
                raise self.lost.sampler(sampler_id)
            self.sequences.admit(prompt.num_samples)
            self.tokens.admit(len(prompt.tokens))
            sampler.last_used = self.clock()
            adapter, give_back = self._borrow(sampler)
            future = self.engine.sample(prompt.request(sampler.base_model, adapter))
            self.sequences.hold(prompt.num_samples, future, sampler_id)
            self.tokens.hold(len(prompt.tokens), future, sampler_id)
            future.add_done_callback(lambda _: give_back())
            return future

        return self._promise(sampler_id, sequence_id, start, prompt.cells)

    def refuse(self, sampler_id: str, sequence_id: int, error: UserError) -> Promise:
        """A request that makes no sense fails as a promise, like any other."""
        return self._promise(sampler_id, sequence_id, lambda: failed(error))

    async def ended(self, sampler_id: str, client: int, cursor: int, timeout: float) -> list[Completion]:
        """Which requests of one client ended after `cursor`, waited for at most `timeout` seconds."""
        sampler = self.get(sampler_id)
        sampler.last_used = self.clock()
        return await sampler.completions[client].after(cursor, timeout)

    def _promise(
        self, sampler_id: str, sequence_id: int, start: Callable[[], Future[Any]], cells: Cells | None = None
    ) -> Promise:
        request_id = f"{sampler_id}:{sequence_id}"
        if (promise := self.promises.get(request_id)) is not None:
            return promise
        promise = self.promises.make(request_id, session_of(sampler_id), start, cells)
        if (sampler := self._samplers.get(sampler_id)) is not None:
            sampler.completions[sequence_id // CLONE].follow(request_id, promise.future)
        return promise

    def _borrow(self, sampler: Sampler) -> tuple[Path | None, Callable[[], None]]:
        """The weights of a sampling session, whose files stay until the returned function is called, whatever happens
        to it."""
        with self._moving:
            directory = sampler.adapter
            if directory is None:
                return None, lambda: None
            if sampler.model_path is None:
                self._leases.take(directory)
                return directory, partial(self._leases.give_back, directory)
        if not self.catalogue.borrow(CheckpointPath.parse(sampler.model_path), directory):
            raise UserError(
                f"{sampler.model_path} expired, or was deleted or overwritten after this sampling client was made; "
                "make a new one from a checkpoint that is there."
            )
        return directory, partial(self.catalogue.give_back, directory)

    # ---- ending

    def close_session(self, session_id: str) -> None:
        """Forget a session's sampling sessions, and their ephemeral files."""
        self._drop([self._samplers[sampler_id] for sampler_id in self.of_session(session_id)])

    def tidy(self) -> None:
        """Drop ephemeral snapshots that many newer ones have replaced: a training loop makes one per step.

        And those of ended sessions: one may have been in the making when its session ended.
        """
        now, live, newer, stale = self.clock(), self.sessions.live(), Counter[str](), []
        for sampler in reversed(list(self._samplers.values())):
            if sampler.session_id not in live:
                stale.append(sampler)
            elif sampler.ephemeral_of is not None:
                newer[sampler.ephemeral_of] += 1
                if newer[sampler.ephemeral_of] > KEEP_SNAPSHOTS and now - sampler.last_used > IDLE_SNAPSHOT:
                    stale.append(sampler)
        self._drop(stale)

    def _drop(self, samplers: Sequence[Sampler]) -> None:
        for sampler in samplers:
            del self._samplers[sampler.sampler_id]
            if sampler.ephemeral_of is not None and sampler.adapter is not None and not self._shared(sampler.adapter):
                self.engine.later(partial(self._leases.retire, sampler.adapter))

    def _move(self, model_id: str, directory: Path) -> None:
        """Give a run's sampling sessions that follow it a newer snapshot."""
        followers = [
            sampler for sampler in list(self._samplers.values()) if sampler.follows and sampler.ephemeral_of == model_id
        ]
        with self._moving:
            replaced = {old for sampler in followers if (old := sampler.adapter) is not None and old != directory}
            for sampler in followers:
                sampler.adapter = directory
        for old in replaced:
            self.engine.later(partial(self._leases.retire, old))

    def _shared(self, directory: Path) -> bool:
        return any(sampler.adapter == directory for sampler in list(self._samplers.values()))

    def _keep(self, sampler: Sampler) -> Sampler:
        sampler.last_used = self.clock()
        self._samplers[sampler.sampler_id] = sampler
        return sampler

    def _served(self, base_model: str) -> str:
        names = [model.name for model in self.base_models]
        if base_model not in names:
            raise NotFoundError(f"This server has no base model {base_model!r}; it serves {', '.join(names)}.")
        return base_model

    def _from_snapshot(self, sampler_id: str, session_id: str, model_path: str, base_model: str | None) -> Sampler:
        path = CheckpointPath.parse(model_path)
        if path.kind is Kind.EXTERNAL:
            raise UserError(f"{path} is an export for other programs; sample from one of save_weights_for_sampler.")
        checkpoint = self.library.find(self.sessions.get(session_id).owner, path)
        if base_model is not None and base_model != checkpoint.base_model:
            raise UserError(f"{path} was trained on {checkpoint.base_model}, not on {base_model}.")
        base = self._served(checkpoint.base_model)
        return Sampler(sampler_id, session_id, base, checkpoint.directory, model_path=str(path))


def _ephemeral(model_id: str, number: int) -> str:
    """The id of the sampling session on an ephemeral snapshot."""
    return f"{session_of(model_id)}:sample:{number}"
