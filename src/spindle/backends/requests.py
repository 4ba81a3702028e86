"""Sample requests: their checks, and what becomes of one that is being answered."""

import math
from collections.abc import Iterable, Sequence

from spindle.backends.base import Base
from spindle.backends.choice import Uniforms
from spindle.backends.contract import SampleRequest, SampleResult, UserError
from spindle.backends.losses import check_tokens
from spindle.backends.prompts import Prompt
from spindle.backends.rows import Row
from spindle.backends.scoring import PromptScores

MOST_CELLS = 1 << 22
"""How many (position, token) cells of top-k, targets or alternatives a request may ask for."""


class Job:
    """A request that is being answered."""

    def __init__(self, base: Base, request: SampleRequest, prompt: Prompt) -> None:
        self.request = request
        self.prompt = prompt
        self.started = False
        self.cached = False
        """Whether the prompt had been computed before the request started."""
        self.scores = PromptScores()
        params = request.params
        stop = base.end_tokens if params.stop_tokens is None else frozenset(params.stop_tokens)
        self.rows = [
            Row(prompt, params, Uniforms(params.seed, i), stop, _limit(base, request), request.topk_sample_logprobs)
            for i in range(request.num_samples)
        ]

    @property
    def done(self) -> bool:
        return all(row.done for row in self.rows)

    def result(self) -> SampleResult | UserError:
        if not all(math.isfinite(logprob) for row in self.rows for logprob in row.logprobs):
            return UserError(
                "the logprobs of this request are not finite: the weights it samples from have diverged; "
                "go back to an earlier checkpoint and lower the learning rate."
            )
        return SampleResult(
            sequences=[row.sequence() for row in self.rows],
            prompt_logprobs=self.scores.logprobs,
            topk_prompt=self.scores.topk,
            target_prompt_logprobs=self.scores.targets,
            prompt_alt_tokens=self.scores.alternatives,
            prompt_cache_hit_tokens=len(self.prompt.tokens) if self.cached else 0,
        )


def _limit(base: Base, request: SampleRequest) -> int:
    """Most tokens to generate."""
    return request.params.max_tokens or base.info.context_length - len(request.prompt)


def check(base: Base, request: SampleRequest) -> None:
    """Raise `UserError` unless the request can be answered."""
    params = request.params
    check_tokens(request.prompt, "prompt", vocabulary=base.info.vocabulary)
    length, context = len(request.prompt), base.info.context_length
    scores_only = params.max_tokens == 1 and length == context  # the one token is never fed back
    if length + (params.max_tokens or 1) > context and not scores_only:
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
    _require(params.top_k >= -1, "top_k", "-1 or 0 (off) or at least 1", params.top_k)
    _require(0 < params.top_p <= 1, "top_p", "above 0 and at most 1", params.top_p)
    _check_stops(base, params.stop_tokens or (), params.stop_strings)
    _check_scores(base, request)


def _check_scores(base: Base, request: SampleRequest) -> None:
    length, vocabulary = len(request.prompt), base.info.vocabulary
    generated = request.num_samples * _limit(base, request)
    _check_cells("topk_prompt_logprobs", request.topk_prompt_logprobs, length, vocabulary)
    _check_cells("topk_sample_logprobs", request.topk_sample_logprobs, generated, vocabulary)
    _check_cells("prompt_alt_tokens_k", request.prompt_alt_tokens_k, length, MOST_CELLS)
    last = request.prompt_logprobs_last_n
    if last is not None:
        asked = request.prompt_logprobs or request.topk_prompt_logprobs > 0
        _require(asked, "prompt_logprobs_last_n", "absent unless prompt logprobs are asked for", last)
        _require(1 <= last < length, "prompt_logprobs_last_n", f"from 1 to {length - 1} for this prompt", last)
    targets = request.target_prompt_logprobs
    if targets is not None:
        name, rows = "target_prompt_logprobs", length - 1
        shaped = targets.ndim == 2 and len(targets) == rows
        _require(shaped, name, f"of shape [{rows}, K], a row per prompt token but the first", list(targets.shape))
        _check_cells(name, targets.shape[1], length, MOST_CELLS)
        wrong = targets[(targets < -1) | (targets >= vocabulary)]
        _require(not wrong.size, name, f"token ids from 0 to {vocabulary - 1}, or -1", wrong[0] if wrong.size else "")


def _check_cells(name: str, k: int, positions: int, most: int) -> None:
    _require(0 <= k <= most, name, f"from 0 to {most}", k)
    _require(k * positions <= MOST_CELLS, name, f"at most {MOST_CELLS // positions} for {positions} positions", k)


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
