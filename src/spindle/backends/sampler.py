"""Batched sampling: prompts are computed once, their samples decoded together, and finished rows leave the batch."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from spindle.backends import head
from spindle.backends.attention import DecodeCache, PromptCache
from spindle.backends.base import Base
from spindle.backends.choice import Uniforms, choose
from spindle.backends.contract import Array, SampledSequence, SamplingParams
from spindle.backends.lora import Adapter, Span

ROWS_AT_ONCE = 256
PROMPT_TOKENS_AT_ONCE = 4096
CACHE_BYTES = 4 << 30
"""Room for keys and values, reserved for what rows may become."""


@dataclass(eq=False)
class Row:
    """One completion in the making."""

    params: SamplingParams
    uniforms: Uniforms
    stop_tokens: frozenset[int]
    limit: int
    """Most tokens to generate."""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stopped: bool = False

    @property
    def done(self) -> bool:
        return self.stopped or len(self.tokens) >= self.limit

    def sequence(self) -> SampledSequence:
        return SampledSequence(
            tokens=np.asarray(self.tokens, dtype=np.int32),
            logprobs=np.asarray(self.logprobs, dtype=np.float32),
            stop_reason="stop" if self.stopped else "length",
        )


@dataclass(eq=False)
class Prompt:
    """A prompt and the completions that start from it."""

    tokens: Array
    adapter: Adapter | None
    rows: list[Row]
    wants_logprobs: bool
    logprobs: Array | None = None
    """Filled in by `Sampler.run` where wanted: float32 [P], entry 0 NaN."""


class Sampler:
    """Runs prompts of one base model to completion, once."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._live: list[Row] = []
        self._adapters: list[Adapter | None] = []
        self._reserved: list[int] = []
        self._cache = DecodeCache(base.device)
        self._room = CACHE_BYTES // base.cache_bytes_per_token

    @torch.inference_mode()
    def run(self, prompts: Sequence[Prompt]) -> None:
        """Complete every row of every prompt, in place."""
        waiting = deque(_in_pieces(prompts, self._room))
        while waiting or self._live:
            admitted = self._admit(waiting)
            for batch in _prefill_batches(admitted):
                self._prefill(batch)
            if self._live:
                self._step()

    def _admit(self, waiting: "deque[Prompt]") -> list[Prompt]:
        """Take as many prompts as there is room for, at least one if nothing runs."""
        admitted: list[Prompt] = []
        rows = len(self._live)
        tokens = sum(self._reserved)
        while waiting:
            new_rows = waiting[0].rows
            new_tokens = sum(_most_tokens(waiting[0], row) for row in new_rows)
            full = rows + len(new_rows) > ROWS_AT_ONCE or tokens + new_tokens > self._room
            if full and (self._live or admitted):
                break
            rows += len(new_rows)
            tokens += new_tokens
            admitted.append(waiting.popleft())
        return admitted

    def _prefill(self, batch: Sequence[Prompt]) -> None:
        """Compute prompts of one adapter, choose each row's first token, and move unfinished rows into the batch."""
        base, adapter = self._base, batch[0].adapter
        padded = base.pad([prompt.tokens for prompt in batch])
        cache = PromptCache()
        states = base.hidden(padded.tokens, [Span(adapter, len(batch))], cache=cache)
        lengths = padded.real.sum(dim=1)
        for index, prompt in enumerate(batch):
            if prompt.wants_logprobs:
                prompt.logprobs = self._prompt_logprobs(prompt, states[index, : len(prompt.tokens)])
        last = states[torch.arange(len(batch), device=base.device), lengths - 1]
        logits = base.logits(last, [Span(adapter, len(batch))])
        picks = [index for index, prompt in enumerate(batch) for _ in prompt.rows]
        rows = [row for prompt in batch for row in prompt.rows]
        for start in range(0, len(rows), ROWS_AT_ONCE):
            block = slice(start, start + ROWS_AT_ONCE)
            self._extend(rows[block], logits[picks[block]])
        going = [i for i, row in enumerate(rows) if not row.done]
        if going:
            chosen = torch.tensor([picks[i] for i in going], device=base.device)
            self._cache.append(cache, chosen, lengths[chosen])
            self._live += [rows[i] for i in going]
            self._adapters += [adapter] * len(going)
            self._reserved += [_most_tokens(batch[picks[i]], rows[i]) for i in going]

    def _prompt_logprobs(self, prompt: Prompt, states: Tensor) -> Array:
        found = np.full(len(prompt.tokens), np.nan, dtype=np.float32)
        if len(prompt.tokens) > 1:
            targets = torch.as_tensor(prompt.tokens[1:]).to(self._base.device, torch.long)[:, None]
            wanted = head.Targets.one_per_row(targets)
            found[1:] = head.logprobs(self._base, prompt.adapter, states[:-1], wanted)[:, 0].cpu().numpy()
        return found

    def _step(self) -> None:
        """One more token for every row in the batch; rows that finished earlier but still sit in it idle along."""
        base, cache = self._base, self._cache
        spans = [Span(adapter, len(list(run))) for adapter, run in groupby(self._adapters)]
        tokens = torch.tensor([[row.tokens[-1]] for row in self._live], device=base.device)
        mask = cache.open_step()
        states = base.hidden(tokens, spans, cache=cache, positions=cache.lengths[:, None], mask=mask)
        cache.close_step()
        self._extend(self._live, base.logits(states[:, 0], spans))
        self._drop_finished()

    def _extend(self, rows: Sequence[Row], logits: Tensor) -> None:
        choice = choose(logits, [row.params for row in rows], [row.uniforms for row in rows])
        for row, token, logprob in zip(rows, choice.tokens, choice.logprobs, strict=True):
            if not row.done:
                row.tokens.append(token)
                row.logprobs.append(logprob)
                row.stopped = token in row.stop_tokens or self._completed_string(row)

    def _completed_string(self, row: Row) -> bool:
        strings = row.params.stop_strings
        return bool(strings) and self._base.text.ends_with_any(row.tokens, strings)

    def _drop_finished(self) -> None:
        """Take finished rows out once an eighth of the batch is finished: it costs a copy of the cache."""
        going = [i for i, row in enumerate(self._live) if not row.done]
        finished = len(self._live) - len(going)
        if finished and 8 * finished >= len(self._live):
            self._cache.keep(torch.tensor(going, dtype=torch.long, device=self._base.device))
            self._live = [self._live[i] for i in going]
            self._adapters = [self._adapters[i] for i in going]
            self._reserved = [self._reserved[i] for i in going]


def _most_tokens(prompt: Prompt, row: Row) -> int:
    return len(prompt.tokens) + row.limit


def _in_pieces(prompts: Sequence[Prompt], room: int) -> list[Prompt]:
    """Prompts by adapter and length, those with more rows than fit into `room` tokens at once cut into several."""
    order: dict[Adapter | None, int] = {}
    pieces = []
    for prompt in prompts:
        order.setdefault(prompt.adapter, len(order))
        pieces.append(prompt)
        longest = max((_most_tokens(prompt, row) for row in prompt.rows), default=1)
        size = min(ROWS_AT_ONCE, max(1, room // longest))
        for start in range(size, len(prompt.rows), size):
            rows = prompt.rows[start : start + size]
            pieces.append(Prompt(prompt.tokens, prompt.adapter, rows, wants_logprobs=False))
        prompt.rows = prompt.rows[:size]
    return sorted(pieces, key=lambda piece: (order[piece.adapter], len(piece.tokens)))


def _prefill_batches(prompts: Sequence[Prompt]) -> list[list[Prompt]]:
    """Consecutive prompts of one adapter, at most `PROMPT_TOKENS_AT_ONCE` with their padding."""
    batches: list[list[Prompt]] = []
    for prompt in prompts:
        batch = batches[-1] if batches else []
        fits = (len(batch) + 1) * len(prompt.tokens) <= PROMPT_TOKENS_AT_ONCE
        if batch and fits and batch[0].adapter is prompt.adapter:
            batch.append(prompt)
        else:
            batches.append([prompt])
    return batches
