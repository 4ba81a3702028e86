"""Sampling sessions and sampling."""

from pydantic import Field

from spindle.backends.contract import Array, SamplingParams, UserError
from spindle.control.samplers import Prompt
from spindle.wire.codec.tensors import Budget
from spindle.wire.requests.body import Body, Whole
from spindle.wire.requests.tensors import ModelInput, Tensor

MOST_SAMPLES = 1024
"""Samples that one request may ask for."""

MOST_STOPS, LONGEST_STOP = 64, 1024
"""Stop strings of one request, and characters of each: every token of every sample is held against all of them."""


class CreateSamplingSession(Body):
    session_id: str
    sampling_session_seq_id: Whole
    base_model: str | None = None
    model_path: str | None = None


class SamplerAddress(Body):
    sampling_session_id: str


class SampleAddress(SamplerAddress):
    seq_id: Whole
    num_samples: Whole = 1


class Sampling(Body):
    max_tokens: Whole | None = None
    seed: Whole | None = None
    stop: str | list[str] | list[Whole] | None = None
    temperature: float = 1.0
    top_k: Whole = -1
    top_p: float = 1.0

    def to_contract(self) -> SamplingParams:
        stop = [self.stop] if isinstance(self.stop, str) else self.stop
        strings = tuple(item for item in stop or () if isinstance(item, str))
        if len(strings) > MOST_STOPS or max(map(len, strings), default=0) > LONGEST_STOP:
            raise UserError(
                f"sampling_params.stop has {len(strings)} strings, the longest of {max(map(len, strings))} characters; "
                f"at most {MOST_STOPS} of {LONGEST_STOP} are taken."
            )
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
    prompt_logprobs: bool | None = None
    prompt_logprobs_last_n: Whole | None = None
    topk_prompt_logprobs: Whole = 0
    topk_sample_logprobs: Whole = 0
    target_prompt_logprobs: Tensor | None = None
    prompt_alt_tokens_k: Whole = 0
    record_stability_info: bool | None = None

    def to_contract(self, budget: Budget) -> Prompt:
        if self.record_stability_info:
            raise UserError(
                "record_stability_info serves the loss stable_reinforce, whose formula is unpublished and which this "
                "server does not offer; leave it out."
            )
        target = self.target_prompt_logprobs
        return Prompt(
            tokens=self.prompt.tokens("The prompt"),
            num_samples=self.num_samples,
            params=self.sampling_params.to_contract(),
            prompt_logprobs=bool(self.prompt_logprobs),
            prompt_logprobs_last_n=self.prompt_logprobs_last_n,
            topk_prompt_logprobs=self.topk_prompt_logprobs,
            topk_sample_logprobs=self.topk_sample_logprobs,
            target_prompt_logprobs=None if target is None else _token_ids(target, budget),
            prompt_alt_tokens_k=self.prompt_alt_tokens_k,
            cells=None if target is None else target.cells,
        )


def _token_ids(target: Tensor, budget: Budget) -> Array:
    where = "target_prompt_logprobs"
    if target.dtype != "int64" or len(target.shape or ()) != 2:
        raise UserError(
            f"{where} is {target.dtype} of shape {target.shape}; expected int64 token ids, [len(prompt) - 1, K]."
        )
    return target.array(where, budget, missing=-1)
