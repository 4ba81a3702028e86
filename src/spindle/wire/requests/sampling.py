"""Sampling sessions and sampling."""

from typing import Any

import numpy as np
from pydantic import Field

from spindle.backends.contract import SamplingParams, UserError
from spindle.control.samplers import Prompt
from spindle.wire.requests.body import Body

MOST_SAMPLES = 1024
"""Samples that one request may ask for."""


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
