"""Any causal language model of `transformers`: its own forward pass, its own caches, LoRA in place of its linear maps.

Slower than the families Spindle runs layer by layer, with the same results: each row is one sequence from position 0,
padded on the right in training, and rows of a cache have the same length, so that neither attention nor a recurrent
state ever sees padding.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from spindle.backends import attention
from spindle.backends.base import Base
from spindle.backends.contract import BaseModel, UserError
from spindle.backends.loading import load_network
from spindle.backends.lora import LoraLinear, Place, Routing, Span
from spindle.backends.placing import flag_of


class GenericBase(Base):
    """A base model that is called as a whole."""

    packs = False

    def __init__(self, model: BaseModel, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(model, device, dtype)
        network = load_network(model, device, dtype, attention=None)
        self._network = network
        output = network.get_output_embeddings()
        self.head = output.weight
        self.head_bias = output.bias
        self._tap = _Tap()
        network.set_output_embeddings(self._tap)
        self.places = [*_wrap_linears(network, self._routing), self._head_place()]
        if len(self.places) == 1:
            raise UserError(
                f"base model {model.name!r}: no linear map of {model.architecture} was found inside attention or an "
                "MLP, so there is nothing to train; serve another architecture."
            )

    def hidden(
        self,
        tokens: Tensor,
        spans: Sequence[Span],
        *,
        cache: attention.PromptCache | attention.DecodeCache | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        if cache is not None or positions is not None or mask is not None:
            raise ValueError("a base that does not pack takes whole rows only; see GenericCache for decoding")
        return self.run(tokens, spans, use_cache=False)

    def run(self, tokens: Tensor, spans: Sequence[Span], **options: Any) -> Tensor:
        """Call the network; returns what its output head is given, [B, T, hidden]."""
        with self._routing.over(spans):
            self._network(input_ids=tokens, **options)
        return self._tap.take()

    def new_cache(self) -> Any:
        """An empty cache of the library, with a layer of the right kind for each of the network's."""
        from transformers import DynamicCache

        return DynamicCache(config=self._network.config)


class GenericCache:
    """Rows being generated with a generic base, all of the same length.

    Rows of another length, of a prompt that came later, need a cache of their own.
    """

    def __init__(self, base: GenericBase) -> None:
        self._base = base
        self._cache = base.new_cache()
        self.length = 0
        """Tokens of each row in the cache."""

    def prefill(self, tokens: Tensor, spans: Sequence[Span]) -> Tensor:
        """Start with the rows `tokens` [B, T], all of the same length; final hidden states [B, T, hidden]."""
        return self._run(tokens, spans)

    def step(self, tokens: Tensor, spans: Sequence[Span]) -> Tensor:
        """Append one token per row, [B, 1]; final hidden states [B, 1, hidden]."""
        return self._run(tokens, spans)

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was: drops, repeats and reorders rows, [kept] indices."""
        self._cache.reorder_cache(rows)

    def _run(self, tokens: Tensor, spans: Sequence[Span]) -> Tensor:
        states = self._base.run(tokens, spans, past_key_values=self._cache, use_cache=True)
        self.length += tokens.shape[1]
        return states


class _Tap(nn.Module):
    """Stands where the output head was and keeps what comes in: logits are made from it, as many as needed."""

    def __init__(self) -> None:
        super().__init__()
        self._states: Tensor | None = None

    def forward(self, states: Tensor) -> Tensor:
        self._states = states
        return states[..., :1]

    def take(self) -> Tensor:
        states, self._states = self._states, None
        if states is None:
            raise RuntimeError("the network did not call its output head")
        return states


def _wrap_linears(network: Any, routing: Routing) -> list[Place]:
    places = []
    for path, module in list(network.named_modules()):
        flag = flag_of(path)
        if type(module) is nn.Linear and flag is not None:
            parent, _, name = path.rpartition(".")
            setattr(network.get_submodule(parent), name, LoraLinear(module, path, routing))
            places.append(Place(path, module.in_features, module.out_features, flag))
    return places
