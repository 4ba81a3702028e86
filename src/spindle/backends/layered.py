"""Families whose layers Spindle runs itself: rotary positions, full attention, one residual stream.

Their attention is Spindle's own (`attention`), so that sequences can be packed and rows of any length decoded together.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from spindle.backends.base import Base
from spindle.backends.caches import PromptCache, RowCache
from spindle.backends.contract import BaseModel
from spindle.backends.layers import lighten
from spindle.backends.loading import load_network
from spindle.backends.lora import Span
from spindle.backends.packing import Plan
from spindle.backends.placing import wrap_linears


class LayeredBase(Base):
    """A base model whose layers are called one by one."""

    packs = True

    def __init__(self, model: BaseModel, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(model, device, dtype)
        network = load_network(model, device, dtype)
        self._decoder = network.model
        self.head = network.lm_head.weight
        self.places = [*wrap_linears(network, self._routing), self._head_place()]
        lighten(self._decoder)
        config = network.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.cache_bytes_per_token = 2 * config.num_hidden_layers * heads * width * dtype.itemsize

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
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=self.device)[None]
        with self._routing.over(spans):
            states: Tensor = self._decoder.embed_tokens(tokens)
            rotary = self._decoder.rotary_emb(states, position_ids=positions)
            for layer in self._decoder.layers:
                run = partial(layer, attention_mask=mask, position_embeddings=rotary, past_key_values=cache)
                states = checkpoint(run, states, use_reentrant=False) if recompute else run(states)
            normed: Tensor = self._decoder.norm(states)
        return normed
