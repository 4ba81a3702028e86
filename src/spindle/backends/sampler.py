"""A running batch of samples: requests join at any step, prompts are computed once, finished rows leave."""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from spindle.backends import decoding, requests
from spindle.backends.base import Base
from spindle.backends.choice import choose
from spindle.backends.contract import SampleRequest, SampleResult, UserError
from spindle.backends.lora import Adapter
from spindle.backends.prompts import Prompt, Prompts
from spindle.backends.requests import Job
from spindle.backends.rows import Row, spans
from spindle.backends.scores import Scores
from spindle.backends.scoring import score

ROWS_AT_ONCE = 256
CACHE_BYTES = 2 << 30
"""Room for keys and values on a CPU, reserved for what rows may become; a GPU gives a third of its memory."""

ADAPTER_BYTES = 1 << 30
"""Weights of the adapters that rows run with, beyond which no request with others starts."""

Ended = list[tuple[int, SampleResult | UserError]]


class Sampler:
    """The `SampleBatch` of one base model. Not thread-safe."""

    def __init__(self, base: Base, load: Callable[[Path], Adapter]) -> None:
        self._base = base
        self._load = load
        self._prompts = Prompts()
        self._reset()

    def _reset(self) -> None:
        self._decoder = decoding.decoder(self._base)
        self._jobs: dict[int, Job] = {}
        self._queued: dict[int, SampleRequest] = {}
        """Requests whose weights are not in memory for them, oldest first."""
        self._waiting: deque[tuple[Job, Row]] = deque()
        """Rows of those whose weights are."""
        self._refused: Ended = []

    @property
    def sequences(self) -> int:
        queued = sum(request.num_samples for request in self._queued.values())
        return queued + len(self._waiting) + sum(not row.done for row in self._decoder.rows)

    def add(self, key: int, request: SampleRequest) -> None:
        try:
            requests.check(self._base, request)
        except UserError as error:
            self._refused.append((key, error))
            return
        self._queued[key] = request

    def cancel(self, key: int) -> None:
        self._refused = [(refused, error) for refused, error in self._refused if refused != key]
        self._queued.pop(key, None)
        job = self._jobs.pop(key, None)
        if job is not None:
            for row in job.rows:
                row.cancelled = True
            self._waiting = deque(waiting for waiting in self._waiting if waiting[0] is not job)

    @torch.inference_mode()
    def step(self) -> Ended:
        try:
            admitted = self._admit()
            if admitted:
                self._start(admitted)
            if admitted or any(row.done for row in self._decoder.rows):
                self._decoder.join([row for _, row in admitted if not row.done])
                for prompt in {row.prompt for _, row in admitted} - {row.prompt for _, row in self._waiting}:
                    prompt.release()
            if self._decoder.rows:
                self._advance()
            return self._collect()
        except Exception:
            self._reset()
            raise

    def _admit(self) -> list[tuple[Job, Row]]:
        """Take as many rows as there is room for, oldest request first; at least one if nothing runs.

        No more prompts than a pass computes at once, so that no step takes long.
        """
        going = [row for row in self._decoder.rows if not row.done]
        count, longest = len(going), max((row.longest for row in going), default=0)
        room = _room(self._base.device)
        admitted: list[tuple[Job, Row]] = []
        new_prompts, new_tokens = set[Prompt](), 0
        while count < ROWS_AT_ONCE:
            if not self._waiting:
                self._open([*going, *(row for _, row in admitted)])
            if not self._waiting:
                break
            row = self._waiting[0][1]
            longest = max(longest, row.longest)
            if count and (count + 1) * self._row_bytes(longest) > room:
                break
            if row.prompt.states is None and row.prompt not in new_prompts:
                new_tokens += len(row.prompt.tokens)
                if new_prompts and new_tokens > decoding.PROMPT_TOKENS_AT_ONCE:
                    break
                new_prompts.add(row.prompt)
            admitted.append(self._waiting.popleft())
            count += 1
        return admitted

    def _open(self, running: Sequence[Row]) -> None:
        """Load the weights of the oldest request that waits for them, if there is room beside those of `running`."""
        while self._queued and not self._waiting:
            adapters = {row.prompt.adapter for row in running}
            if sum(_weight(adapter) for adapter in adapters if adapter is not None) > ADAPTER_BYTES:
                return
            key, request = next(iter(self._queued.items()))
            del self._queued[key]
            try:
                adapter = self._load(request.adapter) if request.adapter is not None else None
            except UserError as error:
                self._refused.append((key, error))
                continue
            except Exception as error:  # whatever is wrong with one file is not the whole batch's affair
                reason = f"{type(error).__name__}: {error}"
                self._refused.append((key, UserError(f"{request.adapter} cannot be read ({reason}); save it again.")))
                continue
            job = self._jobs[key] = Job(self._base, request, self._prompts.find(request.prompt, adapter))
            self._waiting += [(job, row) for row in job.rows]

    def _row_bytes(self, tokens: int) -> int:
        return self._base.cache_bytes_per_row + tokens * self._base.cache_bytes_per_token

    def _start(self, admitted: Sequence[tuple[Job, Row]]) -> None:
        """Compute the prompts that need it, and give each row its first token."""
        jobs = [job for job in dict.fromkeys(job for job, _ in admitted) if not job.started]
        seen: set[Prompt] = set()
        for job in jobs:
            job.started = True
            job.cached = bool(job.prompt.size) or job.prompt in seen
            seen.add(job.prompt)
        self._decoder.compute(list(dict.fromkeys(row.prompt for _, row in admitted)))
        for job in jobs:
            self._prompts.keep(job.prompt)
            job.scores = score(self._base, job.prompt, job.request)
        first = {
            adapter: order for order, adapter in enumerate(dict.fromkeys(row.prompt.adapter for _, row in admitted))
        }
        rows = sorted((row for _, row in admitted), key=lambda row: first[row.prompt.adapter])
        for block in self._blocks(rows):
            places = {prompt: place for place, prompt in enumerate(dict.fromkeys(row.prompt for row in block))}
            last = torch.stack([prompt.computed[-1] for prompt in places])
            logits = self._base.logits(last, spans(prompt.adapter for prompt in places))
            picks = [places[row.prompt] for row in block]
            self._extend(block, logits if len(places) == len(block) else logits[picks])

    def _advance(self) -> None:
        """One more token for every row."""
        states, start = self._decoder.step(), 0
        for block in self._blocks(self._decoder.rows):
            stop = start + len(block)
            self._extend(block, self._base.logits(states[start:stop], spans(row.prompt.adapter for row in block)))
            start = stop

    def _blocks(self, rows: Sequence[Row]) -> list[Sequence[Row]]:
        size = self._base.logit_rows
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def _extend(self, rows: Sequence[Row], logits: Tensor) -> None:
        """Choose a token for each row from its logits."""
        scores = Scores.of(logits)
        tokens = choose(scores, [row.params for row in rows], [row.uniforms for row in rows])
        logprobs = scores.logprobs(tokens[:, None])[:, 0].tolist()
        for row, token, logprob in zip(rows, tokens.tolist(), logprobs, strict=True):
            row.tokens.append(token)
            row.logprobs.append(logprob)
            row.stopped = token in row.stop_tokens or self._completed_string(row)
        self._note_top(rows, scores)

    def _note_top(self, rows: Sequence[Row], scores: Scores) -> None:
        noting = [index for index, row in enumerate(rows) if row.top]
        if noting:
            top = scores.top(max(rows[index].top for index in noting))
            for index in noting:
                row = rows[index]
                row.top_tokens.append(top.token_ids[index, : row.top].tolist())
                row.top_logprobs.append(top.logprobs[index, : row.top].tolist())

    def _completed_string(self, row: Row) -> bool:
        strings = row.params.stop_strings
        return bool(strings) and self._base.text.ends_with_any(row.tokens, strings)

    def _collect(self) -> Ended:
        ended, self._refused = self._refused, []
        for key, job in list(self._jobs.items()):
            if job.done:
                del self._jobs[key]
                ended.append((key, job.result()))
        return ended


def _weight(adapter: Adapter) -> int:
    """Bytes of an adapter."""
    return sum(pair.a.nbytes + pair.b.nbytes for pair in adapter.pairs.values())


def _room(device: torch.device) -> int:
    """Bytes for the caches of all rows together."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory // 3
    return CACHE_BYTES
