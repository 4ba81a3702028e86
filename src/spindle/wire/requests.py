"""The JSON bodies of requests. Unknown fields are ignored: newer clients may send more."""

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from spindle.backends.contract import AdamParams, LoraShape, OptimizerConfig, SamplingParams, UserError
from spindle.control.records import SaveOptions
from spindle.control.samplers import Prompt


def _as_text(metadata: object) -> object:
    return {str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, dict) else metadata or {}


Metadata = Annotated[dict[str, str], BeforeValidator(_as_text)]
HYPERPARAMETERS = ("learning_rate", "beta1", "beta2", "eps", "weight_decay", "grad_clip_norm")
ECHOED = ("step", "lora", "init_seed")
"""What get_info adds to an optimizer configuration; a client may hand it back."""


MOST_SAMPLES = 1024
"""Samples that one request may ask for."""


class Body(BaseModel):
    model_config = ConfigDict(protected_namespaces=(), extra="ignore")


class SessionAddress(Body):
    session_id: str


class ModelAddress(Body):
    model_id: str


class Address(Body):
    """Every command of a training run says whose and which it is."""

    model_id: str
    seq_id: int


class Optimizer(Body):
    """The family, and any hyperparameter that is to be fixed."""

    model_config = ConfigDict(extra="allow")
    type: str = "adamw"

    def to_contract(self) -> OptimizerConfig:
        given = {name: value for name, value in (self.model_extra or {}).items() if name not in ECHOED}
        for name, value in given.items():
            if name not in HYPERPARAMETERS or isinstance(value, bool) or not isinstance(value, int | float):
                raise UserError(
                    f"optimizer_config has {name}={value!r}; the hyperparameters that can be fixed are the numbers "
                    f"{', '.join(HYPERPARAMETERS)}."
                )
        return OptimizerConfig(self.type, {name: float(value) for name, value in given.items()})


class Lora(Body):
    rank: int = 32
    seed: int | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True

    def to_contract(self) -> LoraShape:
        return LoraShape(
            rank=self.rank,
            seed=self.seed,
            train_attn=self.train_attn,
            train_mlp=self.train_mlp,
            train_unembed=self.train_unembed,
        )


class NewModelAddress(Body):
    """Every creation says in which session, and which of its models it makes."""

    session_id: str
    model_seq_id: int = Field(ge=0, lt=10**9)
    user_metadata: Metadata = {}


class CreateModel(NewModelAddress):
    base_model: str
    lora_config: Lora = Lora()
    optimizer_config: Optimizer = Optimizer()


class CreateFromState(NewModelAddress):
    path: str
    optimizer: bool
    base_model: str | None = None
    optimizer_config: Optimizer | None = None


class LoadWeights(Body):
    path: str
    optimizer: bool


class OptimStep(Body):
    adam_params: dict[str, float] | None = None
    optimizer_params: dict[str, Any] | None = None

    def to_contract(self) -> AdamParams:
        if self.adam_params is None:
            family = (self.optimizer_params or {}).get("type")
            raise UserError(f"optim_step was given optimizer family {family!r}; this server has adamw (AdamParams).")
        unknown = sorted(self.adam_params.keys() - HYPERPARAMETERS)
        if unknown:
            raise UserError(f"optim_step has unknown parameters {', '.join(unknown)}.")
        return AdamParams(**self.adam_params)


class SaveWeights(Body):
    path: str | None = None
    ttl_seconds: int | None = None
    overwrite: bool = False
    user_metadata: Metadata = {}

    def options(self) -> SaveOptions:
        return SaveOptions(self.overwrite, self.ttl_seconds, self.user_metadata)


class SaveForSampler(SaveWeights):
    sampling_session_seq_id: int | None = None
    kind: str = "snapshot"


class WeightsInfo(Body):
    tinker_path: str


class CreateSamplingSession(Body):
    session_id: str
    sampling_session_seq_id: int
    base_model: str | None = None
    model_path: str | None = None


class SamplerAddress(Body):
    sampling_session_id: str


class SampleAddress(SamplerAddress):
    seq_id: int
    num_samples: int = 1


class Chunk(Body):
    type: str = "encoded_text"
    tokens: list[int] = []


class ModelInput(Body):
    chunks: list[Chunk]


class Sampling(Body):
    max_tokens: int | None = None
    seed: int | None = None
    stop: str | list[str] | list[int] | None = None
    temperature: float = 1.0
    top_k: int = -1
    top_p: float = 1.0

    def to_contract(self) -> SamplingParams:
        stop = [self.stop] if isinstance(self.stop, str) else self.stop
        strings = tuple(item for item in stop or () if isinstance(item, str))
        tokens = None if stop is None or strings else tuple(item for item in stop if isinstance(item, int))
        return SamplingParams(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            seed=self.seed,
            stop_tokens=tokens,
            stop_strings=strings,
        )


class Sample(Body):
    prompt: ModelInput
    sampling_params: Sampling
    num_samples: int = Field(default=1, ge=1, le=MOST_SAMPLES)
    prompt_logprobs: bool = False
    topk_prompt_logprobs: int = 0
    topk_sample_logprobs: int = 0
    target_prompt_logprobs: dict[str, Any] | None = None
    prompt_alt_tokens_k: int = 0
    prompt_logprobs_last_n: int | None = None
    record_stability_info: bool | None = None

    def to_contract(self) -> Prompt:
        for name in UNSUPPORTED:
            if getattr(self, name):
                raise UserError(f"This server does not support {name} yet; leave it out.")
        for chunk in self.prompt.chunks:
            if chunk.type != "encoded_text":
                raise UserError(f"The prompt has a chunk of kind {chunk.type}; this server takes text tokens only.")
        tokens = [token for chunk in self.prompt.chunks for token in chunk.tokens]
        return Prompt(
            np.asarray(tokens, np.int64), self.num_samples, self.sampling_params.to_contract(), self.prompt_logprobs
        )


UNSUPPORTED = (
    "topk_prompt_logprobs",
    "topk_sample_logprobs",
    "target_prompt_logprobs",
    "prompt_alt_tokens_k",
    "prompt_logprobs_last_n",
    "record_stability_info",
)


class PromiseAddress(Body):
    request_id: str


def sentence(error: ValidationError) -> str:
    """What is wrong with a body: the first problem, where it is, and what was found."""
    problem = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in problem["loc"]) or "the body"
    found = "" if problem["type"] == "missing" else f", found {str(problem['input'])[:80]!r}"
    return f"{where}: {problem['msg']}{found}."
