"""What a request wants to know of its prompt: logprobs, the likeliest tokens, chosen ids, drawn alternatives."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spindle.backends.base import Base
from spindle.backends.choice import Uniforms, alternatives
from spindle.backends.contract import AltTokens, Array, SampleRequest, TopK
from spindle.backends.lora import Span
from spindle.backends.prompts import Prompt
from spindle.backends.scores import Scores

NO_LOGPROB = -99999.0
"""Stands in empty cells of a `TopK`, beside token 0."""


@dataclass
class PromptScores:
    """Entry i is about prompt token i, given those before it; None where not asked for."""

    logprobs: Array | None = None
    topk: TopK | None = None
    targets: Array | None = None
    alternatives: AltTokens | None = None


def score(base: Base, prompt: Prompt, request: SampleRequest) -> PromptScores:
    """Score a computed prompt, making logits only where they are asked for."""
    found = _empty(request)
    states = prompt.computed
    length = len(prompt.tokens)
    starts = _starts(request)
    first = min(starts.values(), default=length)
    uniforms = Uniforms(request.params.seed, request.num_samples)
    for start in range(first, length - 1, base.logit_rows):
        stop = min(start + base.logit_rows, length - 1)
        scores = Scores.of(base.logits(states[start:stop], [Span(prompt.adapter, stop - start)]))
        next_tokens = torch.as_tensor(prompt.tokens[start + 1 : stop + 1]).to(base.device, torch.long)
        begin = max(start, starts.get("suffix", length))
        if found.logprobs is not None and begin < stop:
            found.logprobs[begin + 1 : stop + 1] = _host(scores.logprobs(next_tokens[:, None])[begin - start :, 0])
        if found.topk is not None and begin < stop:
            top = scores.top(request.topk_prompt_logprobs)
            found.topk.token_ids[begin + 1 : stop + 1] = _host(top.token_ids[begin - start :])
            found.topk.logprobs[begin + 1 : stop + 1] = _host(top.logprobs[begin - start :])
        if found.targets is not None and request.target_prompt_logprobs is not None:
            ids = torch.as_tensor(request.target_prompt_logprobs[start:stop]).to(base.device, torch.long)
            found.targets[start:stop] = _host(scores.logprobs(ids.clamp_min(0)).masked_fill_(ids < 0, 0))
        if found.alternatives is not None:
            drawn = alternatives(scores, request.params.temperature, uniforms, request.prompt_alt_tokens_k)
            found.alternatives.token_ids[start:stop] = _host(drawn)
            found.alternatives.logprobs[start:stop] = _host(scores.logprobs(drawn))
    return found


def _starts(request: SampleRequest) -> dict[str, int]:
    """The first position whose logits are needed, by what for; position i scores token i + 1."""
    starts = {}
    length = len(request.prompt)
    if request.prompt_logprobs or request.topk_prompt_logprobs:
        last = request.prompt_logprobs_last_n
        starts["suffix"] = 0 if last is None else length - 1 - last
    if request.target_prompt_logprobs is not None:
        named = np.flatnonzero((request.target_prompt_logprobs >= 0).any(axis=1))
        starts["targets"] = int(named[0]) if len(named) else length
    if request.prompt_alt_tokens_k:
        starts["alternatives"] = 0
    return starts


def _empty(request: SampleRequest) -> PromptScores:
    length, found = len(request.prompt), PromptScores()
    if request.prompt_logprobs:
        found.logprobs = np.full(length, np.nan, np.float32)
    if k := request.topk_prompt_logprobs:
        found.topk = TopK(np.zeros((length, k), np.int32), np.full((length, k), NO_LOGPROB, np.float32))
    if request.target_prompt_logprobs is not None:
        found.targets = np.zeros(request.target_prompt_logprobs.shape, np.float32)
    if k := request.prompt_alt_tokens_k:
        found.alternatives = AltTokens(np.zeros((length - 1, k), np.int64), np.zeros((length - 1, k), np.float32))
    return found


def _host(values: Tensor) -> Array:
    return values.cpu().numpy()
