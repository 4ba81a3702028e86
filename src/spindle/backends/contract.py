"""What an executor of training and sampling must do, in plain data: no torch, no HTTP.

The engine calls a `Backend` from one thread at a time. Arrays are numpy, shapes and units are given per field.
A `UserError` is the caller's mistake: it fails that one request, leaves gradients and weights untouched, and its
text goes to the user as it stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

Array = NDArray[Any]


ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
"""What a saved adapter consists of, by the names of PEFT."""

LARGEST = 1e30
"""Settings of losses and optimizers stay within it, so that what is made of them fits single precision (3.4e38)."""


class UserError(Exception):
    """A request that cannot be done as asked; the text says what, where, expected, found, and what to do."""


class PluginError(Exception):
    """A plugin file that cannot be used; the text says which, why, and what to do."""


@dataclass(frozen=True)
class PluginInfo:
    """A Python file named in the configuration that brings losses or optimizers."""

    path: Path
    sha256: str
    """Of the file as it was loaded, in lower-case hex."""
    provides: tuple[str, ...]
    """E.g. ("loss my_loss", "optimizer my_optimizer")."""


@dataclass(frozen=True)
class BaseModel:
    """A base model that can be trained and sampled."""

    name: str
    """The name clients ask for; also the tokenizer's Hugging Face id."""
    path: Path
    """Directory in the Hugging Face layout (config.json, safetensors, tokenizer)."""
    architecture: str
    context_length: int
    """Most tokens of prompt and completion together."""
    vocabulary: int
    """Rows of the output head; token ids are below it."""


@dataclass(frozen=True)
class LoraShape:
    """Where the adapter sits and how large it is. Scaling is alpha / rank (Hu et al. 2021, eq. 3)."""

    rank: int = 32
    seed: int | None = None
    """Seed of the A matrices; None draws one, which `ModelInfo.lora` then reports."""
    train_attn: bool = True
    train_mlp: bool = True
    train_unembed: bool = True
    alpha: float = 32.0


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer family and the hyperparameters fixed at creation."""

    type: str = "adamw"
    fixed: Mapping[str, float | str] = field(default_factory=dict)
    """E.g. {"learning_rate": 1e-4}; an `optim_step` that names another value is a `UserError`."""
    plugin_sha256: str | None = None
    """Hash of the plugin file that the family comes from; None for a built-in one."""


@dataclass(frozen=True)
class ModelInfo:
    """What is fixed about one model (a training run), for `get_info` and the checkpoint files."""

    model_id: str
    base_model: str
    architecture: str
    lora: LoraShape
    optimizer: OptimizerConfig
    step: int
    """Optimizer steps applied so far."""


@dataclass(frozen=True)
class Datum:
    """One training sequence of N tokens and its per-token loss inputs."""

    tokens: Array
    """Model input, int64 [N]."""
    loss_inputs: Mapping[str, Array]
    """E.g. target_tokens int64 [N] or [N, K], weights / logprobs / advantages float32 of the same shape."""


@dataclass(frozen=True)
class CustomLoss:
    """A loss that a client traced and uploaded: a graph over one datum's logprobs and inputs. Never run as code."""

    loss_id: str
    name: str
    inputs: Mapping[str, int]
    """Rank of each placeholder in order: `logprobs` first, then keys of `Datum.loss_inputs`."""
    graph: Mapping[str, Any]
    """`{"format": 1, "nodes": [...]}` as it came over the wire."""


@dataclass(frozen=True)
class ForwardBackward:
    """Add the gradient of a token-sum loss over `data` to the model's gradient (or only evaluate it)."""

    model_id: str
    data: Sequence[Datum]
    loss_fn: str
    config: Mapping[str, float | str] = field(default_factory=dict)
    forward_only: bool = False
    custom: CustomLoss | None = None
    """The uploaded loss where `loss_fn` is "custom"."""


@dataclass(frozen=True)
class ForwardBackwardResult:
    outputs: list[dict[str, Array]]
    """Per datum {"logprobs": float32, shaped like target_tokens}."""
    metrics: dict[str, float]
    """Keys `name:reduction` with exactly one colon; always `loss:sum`."""


@dataclass(frozen=True)
class OptimizerStep:
    """The hyperparameters of one optimizer step; those left out are as fixed at creation, or the family's defaults."""

    values: Mapping[str, float | str] = field(default_factory=dict)
    family: str | None = None
    """The family they are meant for. None: they came as the client's AdamParams, of which every family takes the ones
    that it has, such as learning_rate, weight_decay and grad_clip_norm (0 means no clipping)."""


@dataclass(frozen=True)
class SamplingParams:
    max_tokens: int | None = None
    """None fills up to the context length."""
    temperature: float = 1.0
    """0 is greedy."""
    top_k: int = -1
    top_p: float = 1.0
    seed: int | None = None
    """The same seed, prompt and parameters give the same tokens; samples of one request still differ."""
    stop_tokens: tuple[int, ...] | None = None
    """None stops at the model's end-of-sequence; () never stops. The stop token is part of the output."""
    stop_strings: tuple[str, ...] = ()


@dataclass(frozen=True)
class SampleRequest:
    base_model: str
    adapter: Path | None
    """Directory of a saved sampler snapshot; None samples from the base model."""
    prompt: Array
    """int64 [P]"""
    num_samples: int
    params: SamplingParams
    prompt_logprobs: bool = False
    prompt_logprobs_last_n: int | None = None
    """Logprobs and top-k rows of the prompt's last n tokens only; the entries before are NaN, the rows empty."""
    topk_prompt_logprobs: int = 0
    """How many of the likeliest tokens to return at each prompt position; 0 for none."""
    topk_sample_logprobs: int = 0
    """The same at each generated position."""
    target_prompt_logprobs: Array | None = None
    """int64 [P - 1, K] token ids to score: row i those that might follow prompt tokens 0..i; -1 skips a cell."""
    prompt_alt_tokens_k: int = 0
    """Tokens to draw, independently and at the request's temperature, at each prompt position after the first."""


@dataclass(frozen=True)
class TopK:
    """The k likeliest tokens at each of L positions, likeliest first; cells without one are (0, -99999.0)."""

    token_ids: Array
    """int32 [L, k]"""
    logprobs: Array
    """float32 [L, k]"""


@dataclass(frozen=True)
class AltTokens:
    """Draws from the model's next-token distribution: row i holds alternatives to prompt token i + 1."""

    token_ids: Array
    """int64 [P - 1, k]"""
    logprobs: Array
    """float32 [P - 1, k], under the model at temperature 1."""


@dataclass(frozen=True)
class SampledSequence:
    tokens: Array
    """int32 [T], the stop token included."""
    logprobs: Array
    """float32 [T]: log p(token) under the model at temperature 1, which RL losses use as q."""
    stop_reason: Literal["stop", "length"]
    topk: TopK | None = None
    """At each generated position, where asked for."""


@dataclass(frozen=True)
class SampleResult:
    sequences: list[SampledSequence]
    prompt_logprobs: Array | None
    """float32 [P]; entry i is log p(token i | tokens < i), entry 0 is NaN."""
    topk_prompt: TopK | None = None
    """At each prompt position, row 0 empty."""
    target_prompt_logprobs: Array | None = None
    """float32, shaped like the request's ids; 0.0 where skipped."""
    prompt_alt_tokens: AltTokens | None = None
    prompt_cache_hit_tokens: int = 0
    """Prompt tokens that had been computed for an earlier request."""


class SampleBatch(Protocol):
    """Sampling requests of one base model that run together, any mix of adapters; they may join and leave at any step.

    What a request returns depends on nothing but its prompt, parameters, seed and weights, whoever else is served.
    """

    @property
    def sequences(self) -> int:
        """Samples that are being generated or wait to be."""
        ...

    def add(self, key: int, request: SampleRequest) -> None:
        """Let a request join at the next step; what ends under `key` is its result."""
        ...

    def cancel(self, key: int) -> None:
        """Drop a request; nothing ends under its key any more. Unknown and ended keys are fine."""
        ...

    def step(self) -> list[tuple[int, SampleResult | UserError]]:
        """Admit what waits as far as there is room, and advance every sample by a token. Returns what ended.

        A step that raises has lost every request of the batch; the batch itself is empty then, and goes on.
        """
        ...


class Backend(Protocol):
    """Trains LoRA adapters of several models on shared base weights, and samples from saved ones.

    Directories are written completely by the backend into an existing, empty folder; making that durable and
    visible at once (fsync, rename) is the caller's business.
    """

    def base_models(self) -> list[BaseModel]: ...

    def plugins(self) -> list[PluginInfo]:
        """The plugin files in use."""
        ...

    def check_model(self, base_model: str, lora: LoraShape, optimizer: OptimizerConfig) -> None:
        """`UserError` for a model that `create_model` would refuse. May be called by any thread; never waits."""
        ...

    def check_custom_loss(self, loss: CustomLoss) -> None:
        """`UserError` for an uploaded loss that is not allowed. May be called by any thread; takes a bounded time."""
        ...

    def create_model(self, model_id: str, base_model: str, lora: LoraShape, optimizer: OptimizerConfig) -> None: ...

    def info(self, model_id: str) -> ModelInfo: ...

    def forward_backward(self, requests: Sequence[ForwardBackward]) -> list[ForwardBackwardResult | UserError]:
        """One result per request, in order; requests of different models may share a pass.

        A call that raises has left no gradient of any request.
        """
        ...

    def optim_step(self, model_id: str, step: OptimizerStep) -> dict[str, float]:
        """Apply the accumulated gradient and clear it. Returns what was applied: every hyperparameter of the family
        that is a number, grad_norm (before clipping), optimizer_step."""
        ...

    def save_adapter(self, model_id: str, directory: Path) -> None:
        """Write a PEFT directory (adapter_model.safetensors, adapter_config.json), weights only."""
        ...

    def save_state(self, model_id: str, directory: Path) -> None:
        """Write the adapter, the optimizer state and what is fixed, for `load_state` or `create_model_from_state`."""
        ...

    def load_state(self, model_id: str, directory: Path, *, with_optimizer: bool) -> None:
        """Overwrite a model with a saved state; without the optimizer, a saved adapter will do."""
        ...

    def create_model_from_state(
        self, model_id: str, directory: Path, optimizer: OptimizerConfig | None, *, with_optimizer: bool
    ) -> None:
        """A new model with the base, LoRA shape and weights of a saved state; `optimizer` None keeps the saved one."""
        ...

    def sample(self, requests: Sequence[SampleRequest]) -> list[SampleResult | UserError]:
        """Run requests to completion, those of one base model in one batch."""
        ...

    def sampling(self, base_model: str) -> SampleBatch:
        """A new, empty batch; `UserError` for a base model that is not served. Waits for the weights to be loaded."""
        ...

    def unload_model(self, model_id: str) -> None:
        """Free a model's adapter, gradient and optimizer state; unknown ids are fine."""
        ...
