"""Any causal language model of `transformers`: its own forward pass, its own caches, LoRA in place of its linear maps.

Slower than the families Spindle runs layer by layer, with the same results: each row is one sequence from position 0,
padded on the right in training, and rows of a cache have the same length, so that neither attention nor a recurrent
state ever sees padding.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from spindle.backends.base import Base
from spindle.backends.caches import PromptCache, RowCache
from spindle.backends.contract import BaseModel, UserError
from spindle.backends.lora import Span
from spindle.backends.packing import Plan
from spindle.backends.placing import wrap_linears

_SOFTCAPS = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")
"""What configurations call the bound that logits are softly capped at."""


class GenericBase(Base):
    """A base model that is called as a whole; `probing.load` makes one and proves it."""

    packs = False
    caches = True
    """Whether the library's cache works for this architecture."""
    cache_bytes_per_token = 0

    def __init__(self, model: BaseModel, network: Any, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(model, device, dtype)
        self._network = network
        self._tap = _Tap(_output_head(network, model))
        network.set_output_embeddings(self._tap)
        self.head = self._tap.weight
        self.head_bias = self._tap.bias
        config = network.config.get_text_config(decoder=True)
        self._scale = _logit_scale(config)
        self.softcap = next((cap for name in _SOFTCAPS if (cap := getattr(config, name, None))), None)
        self.places = [*wrap_linears(network, self._routing), self._head_place()]

    def hidden(
        self,
        tokens: Tensor,
        spans: Sequence[Span],
        *,
        cache: PromptCache | RowCache | None = None,
        positions: Tensor | None = None,
        mask: Tensor | Plan | None = None,
        recompute: bool = False,
    ) -> Tensor:
        if cache is not None or positions is not None or mask is not None:
            raise ValueError("a base that does not pack takes whole rows only; see GenericCache for decoding")
        with _recomputing(self._network) if recompute else contextlib.nullcontext():
            return self.run(tokens, spans, use_cache=False)

    def run(self, tokens: Tensor, spans: Sequence[Span], **options: Any) -> Tensor:
        """Call the network on tokens [B, T] with options of its own; final hidden states [B, T, hidden]."""
        with self._routing.over(spans):
            self._network(input_ids=tokens, **options)
        states = self._tap.take()
        return states if self._scale == 1 else states * self._scale

    def new_cache(self) -> Any:
        """An empty cache of the library, with a layer of the right kind for each of the network's."""
        from transformers import DynamicCache

        return DynamicCache(config=self._network.config)


@contextlib.contextmanager
def _recomputing(network: Any) -> Iterator[None]:
    """While it lasts, the library's layers keep their inputs alone, where the architecture can."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    if not network.supports_gradient_checkpointing:
        yield
        return
    layers = [module for module in network.modules() if isinstance(module, GradientCheckpointingLayer)]
    network.gradient_checkpointing_enable({"use_reentrant": False})
    for layer in layers:
        layer.training = True  # but not what is inside it, which would drop out
    try:
        yield
    finally:
        network.gradient_checkpointing_disable()
        for layer in layers:
            layer.training = False


class GenericCache:
    """Rows being generated with a generic base, all of the same length.

    Rows of another length, of a prompt that came later, need a cache of their own. Where the library's cache does not
    work for an architecture, each step computes the rows anew.
    """

    def __init__(self, base: GenericBase) -> None:
        self._base = base
        self._cache = base.new_cache() if base.caches else None
        self._tokens = torch.zeros(0, 0, dtype=torch.long, device=base.device)

    @property
    def length(self) -> int:
        """Tokens of each row."""
        return self._tokens.shape[1]

    def prefill(self, tokens: Tensor, spans: Sequence[Span]) -> Tensor:
        """Start with the rows `tokens` [B, T], all of the same length; final hidden states [B, T, hidden]."""
        self._tokens = tokens
        if self._cache is None:
            return self._base.hidden(tokens, spans)
        return self._base.run(tokens, spans, past_key_values=self._cache, use_cache=True)

    def step(self, tokens: Tensor, spans: Sequence[Span]) -> Tensor:
        """Append one token per row, [B, 1]; final hidden states [B, 1, hidden]."""
        self._tokens = torch.cat([self._tokens, tokens], dim=1)
        if self._cache is None:
            return self._base.hidden(self._tokens, spans)[:, -1:]
        return self._base.run(tokens, spans, past_key_values=self._cache, use_cache=True)

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was: drops, repeats and reorders rows, [kept] indices."""
        self._tokens = self._tokens[rows]
        if self._cache is not None:
            self._cache.reorder_cache(rows)

    def size(self) -> int:
        """Bytes of the library's cache."""
        if self._cache is None:
            return 0
        states = (vars(layer).values() for layer in self._cache.layers)
        return sum(state.nbytes for layer in states for state in layer if isinstance(state, Tensor))


class _Tap(nn.Module):
    """Stands where the output head was and keeps what comes in: logits are made from it, as many as needed."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.weight: Tensor = head.weight  # type: ignore[assignment]
        self.bias: Tensor | None = getattr(head, "bias", None)
        self._states: Tensor | None = None

    def forward(self, states: Tensor) -> Tensor:
        self._states = states
        return states[..., :1]

    def take(self) -> Tensor:
        states, self._states = self._states, None
        if states is None:
            raise UserError("its network does not call its output head")
        return states


def _output_head(network: Any, model: BaseModel) -> nn.Module:
    head = network.get_output_embeddings()
    weight = getattr(head, "weight", None)
    if weight is None or weight.ndim != 2 or len(weight) != model.vocabulary:
        shape = "none" if weight is None else list(weight.shape)
        raise UserError(
            f"base model {model.name!r}: the output head of {model.architecture} must be a matrix with "
            f"{model.vocabulary} rows (vocab_size), found {shape}; serve another architecture."
        )
    found: nn.Module = head
    return found


def _logit_scale(config: Any) -> float:
    """What logits are multiplied with after the head; applied to its inputs instead, which is the same.

    Granite divides, Cohere and Falcon-H1 multiply.
    """
    scale = 1 / float(getattr(config, "logits_scaling", None) or 1)
    for name in ("logit_scale", "lm_head_multiplier"):
        factor = getattr(config, name, None)
        if isinstance(factor, (int, float)):
            scale *= factor
    return scale
