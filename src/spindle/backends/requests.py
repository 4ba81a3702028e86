"""Sample requests: their checks, and which of them share a prompt."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spindle.backends.base import Base
from spindle.backends.choice import Uniforms
from spindle.backends.contract import Array, SampleRequest, SampleResult, UserError
from spindle.backends.lora import Adapter
from spindle.backends.losses import check_tokens
from spindle.backends.sampler import Prompt, Row, Sampler


@dataclass(frozen=True)
class _Plan:
    prompt: Prompt
    rows: list[Row]


def run(
    base: Base, requests: Sequence[SampleRequest], load: Callable[[Path], Adapter]
) -> list[SampleResult | UserError]:
    """Answer requests on one base model in one batch; `load` finds a saved adapter."""
    prompts: dict[tuple[Adapter | None, bytes], Prompt] = {}
    plans: list[_Plan | UserError] = []
    for request in requests:
        try:
            check(base, request)
            adapter = load(request.adapter) if request.adapter is not None else None
            plans.append(_plan(base, request, adapter, prompts))
        except UserError as error:
            plans.append(error)
    Sampler(base).run(list(prompts.values()))
    return [
        plan if isinstance(plan, UserError) else _result(plan, request.prompt_logprobs)
        for plan, request in zip(plans, requests, strict=True)
    ]


def _plan(
    base: Base, request: SampleRequest, adapter: Adapter | None, prompts: dict[tuple[Adapter | None, bytes], Prompt]
) -> _Plan:
    params = request.params
    stop = base.end_tokens if params.stop_tokens is None else frozenset(params.stop_tokens)
    limit = params.max_tokens or base.info.context_length - len(request.prompt)
    rows = [Row(params, Uniforms(params.seed, i), stop, limit) for i in range(request.num_samples)]
    key = (adapter, request.prompt.astype("int64").tobytes())
    prompt = prompts.setdefault(key, Prompt(request.prompt, adapter, [], wants_logprobs=False))
    prompt.rows += rows
    prompt.wants_logprobs |= request.prompt_logprobs
    return _Plan(prompt, rows)


def _result(plan: _Plan, with_prompt_logprobs: bool) -> SampleResult | UserError:
    if not all(math.isfinite(logprob) for row in plan.rows for logprob in row.logprobs):
        return UserError(
            "the logprobs of this request are not finite: the weights it samples from have diverged; "
            "go back to an earlier checkpoint and lower the learning rate."
        )
    logprobs: Array | None = plan.prompt.logprobs if with_prompt_logprobs else None
    return SampleResult(sequences=[row.sequence() for row in plan.rows], prompt_logprobs=logprobs)


def check(base: Base, request: SampleRequest) -> None:
    """Raise `UserError` unless the request can be answered."""
    params = request.params
    check_tokens(request.prompt, "prompt", vocabulary=base.info.vocabulary)
    length, context = len(request.prompt), base.info.context_length
    if length + (params.max_tokens or 1) > context:
        raise UserError(
            f"prompt ({length} tokens) and max_tokens ({params.max_tokens or 'to the end'}) exceed the model's context "
            f"of {context}; shorten the prompt or lower max_tokens."
        )
    _require(request.num_samples >= 1, "num_samples", "at least 1", request.num_samples)
    _require(params.max_tokens is None or params.max_tokens >= 1, "max_tokens", "at least 1", params.max_tokens)
    _require(
        math.isfinite(params.temperature) and params.temperature >= 0,
        "temperature",
        "finite and at least 0 (greedy)",
        params.temperature,
    )
    _require(params.top_k == -1 or params.top_k >= 1, "top_k", "-1 (off) or at least 1", params.top_k)
    _require(0 < params.top_p <= 1, "top_p", "above 0 and at most 1", params.top_p)
    _check_stops(base, params.stop_tokens or (), params.stop_strings)


def _check_stops(base: Base, tokens: Iterable[int], strings: Sequence[str]) -> None:
    for token in tokens:
        known = 0 <= token < base.info.vocabulary
        _require(known, "stop", f"token ids from 0 to {base.info.vocabulary - 1}", token)
    if strings:
        _require("" not in strings, "stop", "strings that are not empty", "an empty one")
        base.text.check()


def _require(holds: bool, name: str, expected: str, found: object) -> None:
    if not holds:
        raise UserError(f"{name} must be {expected}, found {found}.")
