"""A generic base, proven against the library: what a network computes on two short random sequences, before and after
Spindle takes it apart.

`transformers` has well over a hundred causal language models. Rather than trusting that each keeps to the same customs,
a base is compared with the library's own numbers when it is loaded, and refused where they differ.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spindle.backends.contract import BaseModel, LoraShape, UserError
from spindle.backends.generic import GenericBase, GenericCache
from spindle.backends.loading import load_network
from spindle.backends.lora import HEAD, Adapter, Place, Span, create_adapter

_LENGTH = 12
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.1}
"""Largest difference of logits, relative to all of them (Frobenius norm)."""


class _Example(NamedTuple):
    tokens: Tensor
    """int64 [2, T]"""
    logits: Tensor
    """The library's, fp32 [2, T, vocabulary]."""

    @property
    def middle(self) -> int:
        return self.tokens.shape[1] // 2


def load(model: BaseModel, device: torch.device, dtype: torch.dtype) -> GenericBase:
    """Load a model as a generic base. Raises `UserError` where its numbers are not those of the library."""
    network = load_network(model, device, dtype)
    if getattr(network.config.get_text_config(decoder=True), "attn_logit_softcapping", None):
        network.set_attn_implementation("eager")  # the library's other functions leave the soft cap of scores out
    example = _run_untouched(network, model, device)
    base = GenericBase(model, network, device, dtype)
    base.places = _used_places(base, example)
    _check(base, example)
    base.caches = _decodes(base, example)
    if base.caches:
        _measure_cache(base, example)
    return base


@torch.no_grad()
def _run_untouched(network: Any, model: BaseModel, device: torch.device) -> _Example:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(model.vocabulary, (2, min(_LENGTH, model.context_length)), generator=generator).to(device)
    try:
        return _Example(tokens, network(input_ids=tokens, use_cache=False).logits.float())
    except Exception as error:
        raise UserError(
            f"base model {model.name!r}: {model.architecture} does not compute logits from a list of tokens "
            f"({type(error).__name__}: {error}); serve a text model."
        ) from error


def _used_places(base: GenericBase, example: _Example) -> list[Place]:
    """The places whose adapter the final hidden states depend on, and the head."""
    adapter = create_adapter(base.places, LoraShape(rank=1, seed=0), base.device)
    states = base.hidden(example.tokens, [Span(adapter, 2)])
    if states.requires_grad:
        torch.autograd.backward(states, torch.linspace(-1, 1, states.numel()).to(states).view_as(states))
    found = [place for place in base.places if place.path == HEAD or _learns(adapter, place)]
    if len(found) == 1:
        raise UserError(
            f"base model {base.info.name!r}: {base.info.architecture} has no linear map inside attention or an MLP "
            "for an adapter to sit on, so there is nothing to train; serve another architecture."
        )
    return found


def _learns(adapter: Adapter, place: Place) -> bool:
    gradient = adapter.pairs[place.path].b.grad
    return gradient is not None and bool(gradient.any())


@torch.no_grad()
def _check(base: GenericBase, example: _Example) -> None:
    """Raise `UserError` unless a base computes what the library does, causally, each row with its own adapter."""
    tokens, expected, middle = example.tokens, example.logits, example.middle
    _require(base, _logits(base, tokens, [Span(None, 2)]), expected, "its logits differ from the library's own")
    first = _logits(base, tokens[:, :middle], [Span(None, 2)])
    _require(base, first, expected[:, :middle], "the logits of a token depend on those after it")
    adapter = create_adapter(base.places, LoraShape(rank=1, alpha=1, seed=0), base.device)
    for number, pair in enumerate(adapter.pairs.values()):
        pair.b.copy_(torch.linspace(-1, 1, len(pair.b)).roll(number)[:, None] / len(pair.b) ** 0.5)
    mixed = _logits(base, tokens, [Span(adapter, 1), Span(None, 1)])
    alone = _logits(base, tokens[:1], [Span(adapter, 1)])
    _require(base, mixed, torch.cat([alone, expected[1:]]), "an adapter reaches the sequences of others")


def _require(base: GenericBase, found: Tensor, expected: Tensor, otherwise: str) -> None:
    difference = _difference(found, expected)
    if not difference <= _TOLERANCE[base.dtype]:
        raise UserError(
            f"base model {base.info.name!r} of architecture {base.info.architecture} cannot be served: {otherwise} "
            f"(relative difference {difference:.1e} on random tokens, allowed {_TOLERANCE[base.dtype]:.0e})."
        )


def _difference(found: Tensor, expected: Tensor) -> float:
    if found.shape != expected.shape:
        return math.inf
    return float((found - expected).norm() / expected.norm())


def _logits(base: GenericBase, tokens: Tensor, spans: list[Span]) -> Tensor:
    return _head(base, base.hidden(tokens, spans), spans)


def _head(base: GenericBase, states: Tensor, spans: list[Span]) -> Tensor:
    per_row = [Span(span.adapter, span.rows * states.shape[1]) for span in spans]
    return base.logits(states.flatten(0, 1), per_row).view(*states.shape[:2], -1)


@torch.no_grad()
def _decodes(base: GenericBase, example: _Example) -> bool:
    """Whether tokens appended one by one, with the library's cache, give the logits of whole sequences.

    Architectures with caches of their own, or none, fail in as many ways as there are: any error means no.
    """
    tokens, none = example.tokens, [Span(None, 2)]
    try:
        cache = GenericCache(base)
        found = [cache.prefill(tokens[:, : example.middle], none)]
        cache.select(torch.tensor([1, 0], device=base.device))
        found[0] = found[0].flip(0)
        found += [cache.step(tokens.flip(0)[:, i : i + 1], none) for i in range(example.middle, tokens.shape[1])]
        logits = _head(base, torch.cat(found, dim=1), none)
        return _difference(logits, example.logits.flip(0)) <= _TOLERANCE[base.dtype]
    except Exception:
        return False


@torch.no_grad()
def _measure_cache(base: GenericBase, example: _Example) -> None:
    """Bytes of a row: what a token adds, sliding windows taken as if they kept everything, and what is there anyhow."""
    cache = GenericCache(base)
    cache.prefill(example.tokens[:1, :-1], [Span(None, 1)])
    before = cache.size()
    cache.step(example.tokens[:1, -1:], [Span(None, 1)])
    base.cache_bytes_per_token = cache.size() - before
    base.cache_bytes_per_row = cache.size() - cache.length * base.cache_bytes_per_token
