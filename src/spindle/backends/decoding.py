"""From prompts to hidden states, and from there on one token per row and step.

Bases that pack decode all rows in one pass, whatever their lengths; others take a pass for each group of rows of equal
length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor

from spindle.backends.base import Base
from spindle.backends.caches import GRAIN, KeysValues, PromptCache, RowCache
from spindle.backends.generic import GenericBase, GenericCache
from spindle.backends.lora import Adapter, Span
from spindle.backends.prompts import Prompt
from spindle.backends.rows import Row, spans

PROMPT_TOKENS_AT_ONCE = 4096


class Decoder(Protocol):
    """Computes prompts and holds the rows being generated."""

    @property
    def rows(self) -> list[Row]:
        """In the order of what `step` returns."""
        ...

    def compute(self, prompts: Sequence[Prompt]) -> None:
        """Fill in the states of prompts, and what their rows start from; `join` follows before anything else."""

    def join(self, rows: Sequence[Row]) -> None:
        """Drop rows that are done, and take in new ones of computed prompts; each has its first token."""

    def step(self) -> Tensor:
        """Feed each row its last token; final hidden states [rows, hidden]."""


def decoder(base: Base) -> Decoder:
    return GroupedDecoder(base) if isinstance(base, GenericBase) else PackedDecoder(base)


class PackedDecoder:
    """All rows in one pass, over keys and values of their own."""

    def __init__(self, base: Base) -> None:
        self.rows: list[Row] = []
        self._base = base
        self._cache = RowCache(base.device)

    def compute(self, prompts: Sequence[Prompt]) -> None:
        for batch in _batches([prompt for prompt in prompts if prompt.states is None], GRAIN):
            base, lengths = self._base, [len(prompt.tokens) for prompt in batch]
            width = min(-(-max(lengths) // GRAIN) * GRAIN, base.info.context_length)
            tokens = torch.zeros(len(batch), width, dtype=torch.long)
            for row, prompt in enumerate(batch):
                tokens[row, : lengths[row]] = torch.as_tensor(prompt.tokens)
            cache = PromptCache()
            states = base.hidden(tokens.to(base.device), [Span(batch[0].adapter, len(batch))], cache=cache)
            for row, (prompt, memory) in enumerate(zip(batch, cache.split(lengths), strict=True)):
                prompt.states, prompt.memory = states[row, : lengths[row]].clone(), memory
                prompt.size = prompt.states.nbytes + memory.keys.nbytes + memory.values.nbytes

    def join(self, rows: Sequence[Row]) -> None:
        sources: dict[Row, int | KeysValues] = {
            **{row: slot for slot, row in enumerate(self.rows) if not row.done},
            **{row: cast("KeysValues", row.prompt.memory) for row in rows},
        }
        slots = {row: source if isinstance(source, int) else None for row, source in sources.items()}
        self.rows = _arranged(slots)
        self._cache.arrange([sources[row] for row in self.rows], _longest(self.rows))

    def step(self) -> Tensor:
        positions, mask = self._cache.open_step(_longest(self.rows))
        states = self._base.hidden(
            _last_tokens(self.rows, self._base),
            spans(row.prompt.adapter for row in self.rows),
            cache=self._cache,
            positions=positions,
            mask=mask,
        )
        self._cache.close_step()
        return states[:, 0]


def _longest(rows: Sequence[Row]) -> int:
    return max((row.longest for row in rows), default=0)


def _arranged(slots: dict[Row, int | None]) -> list[Row]:
    """Rows by adapter, as many as can be where they were: `slots` says where that is."""
    runs: dict[Adapter | None, list[Row]] = {}
    for row in slots:
        runs.setdefault(row.prompt.adapter, []).append(row)
    arranged: list[Row] = []
    for run in runs.values():
        start = len(arranged)
        places: list[Row | None] = [None] * len(run)
        movers = []
        for row in run:
            slot = slots[row]
            if slot is not None and start <= slot < start + len(run):
                places[slot - start] = row
            else:
                movers.append(row)
        moving = iter(movers)
        arranged += [row if row is not None else next(moving) for row in places]
    return arranged


@dataclass(frozen=True)
class _Place:
    """Where a prompt of a generic base was computed."""

    cache: GenericCache
    row: int


@dataclass(eq=False)
class _Group:
    """Rows of equal length."""

    cache: GenericCache
    rows: list[Row]


class GroupedDecoder:
    """A pass per group of rows of equal length, with the library's own caches."""

    def __init__(self, base: GenericBase) -> None:
        self._base = base
        self._groups: list[_Group] = []

    @property
    def rows(self) -> list[Row]:
        return [row for group in self._groups for row in group.rows]

    def compute(self, prompts: Sequence[Prompt]) -> None:
        for batch in _batches(prompts, 1):
            cache = GenericCache(self._base)
            tokens = torch.stack([torch.as_tensor(prompt.tokens) for prompt in batch]).to(self._base.device)
            states = cache.prefill(tokens, [Span(batch[0].adapter, len(batch))])
            for row, prompt in enumerate(batch):
                prompt.states, prompt.memory = states[row], _Place(cache, row)

    def join(self, rows: Sequence[Row]) -> None:
        for group in self._groups:
            going = [slot for slot, row in enumerate(group.rows) if not row.done]
            if len(going) < len(group.rows):
                group.rows = [group.rows[slot] for slot in going]
                group.cache.select(torch.tensor(going, dtype=torch.long, device=self._base.device))
        starting: dict[GenericCache, list[Row]] = {}
        for row in rows:
            starting.setdefault(_place(row).cache, []).append(row)
        for cache, started in starting.items():
            cache.select(torch.tensor([_place(row).row for row in started], device=self._base.device))
            self._groups.append(_Group(cache, started))
        self._groups = [group for group in self._groups if group.rows]

    def step(self) -> Tensor:
        states = [
            group.cache.step(_last_tokens(group.rows, self._base), spans(row.prompt.adapter for row in group.rows))[
                :, 0
            ]
            for group in self._groups
        ]
        return torch.cat(states)


def _place(row: Row) -> _Place:
    return cast("_Place", row.prompt.memory)


def _last_tokens(rows: Sequence[Row], base: Base) -> Tensor:
    return torch.tensor([[row.tokens[-1]] for row in rows], device=base.device)


def _batches(prompts: Sequence[Prompt], grain: int) -> Iterator[list[Prompt]]:
    """Prompts to compute together: one adapter, lengths equal when rounded up to `grain`, so many tokens at once."""
    groups: dict[tuple[Adapter | None, int], list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault((prompt.adapter, -(-len(prompt.tokens) // grain)), []).append(prompt)
    for (_, grains), group in groups.items():
        size = max(1, PROMPT_TOKENS_AT_ONCE // (grains * grain))
        yield from (group[start : start + size] for start in range(0, len(group), size))
