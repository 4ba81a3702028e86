"""A backend that computes nothing and writes down what it was asked, for tests of order and batching."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from spindle.backends.contract import (
    BaseModel,
    CustomLoss,
    ForwardBackward,
    ForwardBackwardResult,
    LoraShape,
    ModelInfo,
    OptimizerConfig,
    OptimizerStep,
    PluginInfo,
    SampleBatch,
    SampledSequence,
    SampleRequest,
    SampleResult,
    UserError,
)

BROKEN, UNFIT = 13, 14


class RecordingBackend:
    """Calls are in `calls`, one string each; `hold` makes the compute thread wait inside the next call."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.hold = threading.Event()
        self.hold.set()
        self.entered = threading.Event()
        self.threads: set[int] = set()
        self._take: Callable[[str], object] = lambda _: None
        self.custom: list[CustomLoss] = []
        """The uploaded losses of gradient requests."""
        self.loss: float | None = None
        """What gradient requests report; None for how many data they have."""

    def note(self, call: str) -> None:
        self.threads.add(threading.get_ident())
        self.entered.set()
        assert self.hold.wait(20)
        self.calls.append(call)
        self._take(call)

    def each_takes(self, happening: Callable[[str], object]) -> None:
        """What happens in the course of each call from now on."""
        self._take = happening

    def base_models(self) -> list[BaseModel]:
        return [BaseModel("base", Path("/nowhere"), "LlamaForCausalLM", 128, 100)]

    def check_model(self, base_model: str, lora: LoraShape, optimizer: OptimizerConfig) -> None:
        if optimizer.type == "unknown":
            raise UserError(f"no optimizer {optimizer.type}.")

    def check_custom_loss(self, loss: CustomLoss) -> None:
        if loss.name == "bad":
            raise UserError("bad graph")

    def plugins(self) -> list[PluginInfo]:
        return []

    def create_model(self, model_id: str, base_model: str, lora: LoraShape, optimizer: OptimizerConfig) -> None:
        self.note(f"create {model_id}")
        if base_model != "base":
            raise UserError(f"no base model {base_model}")

    def info(self, model_id: str) -> ModelInfo:
        return ModelInfo(model_id, "base", "LlamaForCausalLM", LoraShape(seed=1), OptimizerConfig(), step=0)

    def forward_backward(self, requests: Sequence[ForwardBackward]) -> list[ForwardBackwardResult | UserError]:
        self.note("gradient " + " ".join(f"{request.model_id}/{request.loss_fn}" for request in requests))
        self.custom += [request.custom for request in requests if request.custom is not None]
        if any(request.loss_fn == "broken" for request in requests):
            raise RuntimeError("out of memory")
        if any(request.loss_fn == "forgotten" for request in requests):
            return []
        return [
            UserError("bad loss")
            if request.loss_fn == "bad"
            else ForwardBackwardResult([], {"loss:sum": self.loss or float(len(request.data))})
            for request in requests
        ]

    def optim_step(self, model_id: str, step: OptimizerStep) -> dict[str, float]:
        self.note(f"step {model_id}")
        return {name: float(value) for name, value in step.values.items()}

    def save_adapter(self, model_id: str, directory: Path) -> None:
        self.note(f"save_adapter {model_id}")
        (directory / "adapter").write_text(model_id)

    def save_state(self, model_id: str, directory: Path) -> None:
        self.note(f"save_state {model_id}")
        (directory / "state").write_text(model_id)

    def load_state(self, model_id: str, directory: Path, *, with_optimizer: bool) -> None:
        (saved,) = directory.iterdir()
        self.note(f"load {model_id} {saved.read_text()} {with_optimizer}")

    def create_model_from_state(
        self, model_id: str, directory: Path, optimizer: OptimizerConfig | None, *, with_optimizer: bool
    ) -> None:
        self.note(f"restore {model_id} {(directory / 'state').read_text()} {with_optimizer}")

    def sample(self, requests: Sequence[SampleRequest]) -> list[SampleResult | UserError]:
        raise NotImplementedError("the engine drives batches")

    def sampling(self, base_model: str) -> SampleBatch:
        if base_model == "none":
            raise UserError("no such base model")
        return RecordingBatch(self)

    def unload_model(self, model_id: str) -> None:
        self.note(f"unload {model_id}")


class RecordingBatch:
    """Each sample ends after `max_tokens` steps; one of the seed `BROKEN` breaks the step it joins.

    One of the seed `UNFIT` cannot even join.
    """

    def __init__(self, backend: RecordingBackend) -> None:
        self._backend = backend
        self._running: dict[int, SampleRequest] = {}
        self._steps: dict[int, int] = {}

    @property
    def sequences(self) -> int:
        return sum(request.num_samples for request in self._running.values())

    def add(self, key: int, request: SampleRequest) -> None:
        if request.params.seed == UNFIT:
            raise RuntimeError("no room for its adapter")
        self._running[key] = request
        self._steps[key] = 0

    def cancel(self, key: int) -> None:
        self._running.pop(key, None)

    def step(self) -> list[tuple[int, SampleResult | UserError]]:
        self._backend.note(f"sample {' '.join(request.base_model for request in self._running.values())}")
        if any(request.params.seed == BROKEN for request in self._running.values()):
            self._running.clear()
            raise RuntimeError("out of memory")
        ended: list[tuple[int, SampleResult | UserError]] = []
        for key, request in list(self._running.items()):
            self._steps[key] += 1
            if self._steps[key] == (request.params.max_tokens or 1):
                del self._running[key]
                sequence = SampledSequence(np.zeros(1, np.int32), np.zeros(1, np.float32), "stop")
                ended.append((key, SampleResult([sequence] * request.num_samples, None, None)))
        return ended


def gradient(model_id: str, loss_fn: str = "cross_entropy") -> ForwardBackward:
    """A gradient request whose loss name serves as its label."""
    return ForwardBackward(model_id, [], loss_fn)
