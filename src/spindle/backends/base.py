"""A base model in memory: frozen `transformers` weights under LoRA layers, and the passes made with them."""

import importlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spindle.backends import attention
from spindle.backends.contract import BaseModel
from spindle.backends.lora import ATTENTION, HEAD, MLP, LoraLinear, Place, Routing, Span, lora_linear, parts
from spindle.backends.quiet import quiet_transformers
from spindle.backends.stopping import Text

_FAMILIES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}

_LOGITS_AT_ONCE = 1 << 24
"""Numbers in one block of logits: 64 MiB in fp32."""


class Padded(NamedTuple):
    """Sequences of different lengths as one batch."""

    tokens: Tensor
    """int64 [B, T], padded on the right with 0."""
    real: Tensor
    """bool [B, T]"""


class Base:
    """One base model. Not thread-safe: one pass at a time."""

    def __init__(self, model: BaseModel, device: torch.device, dtype: torch.dtype) -> None:
        self.info = model
        self.device = device
        self.dtype = dtype
        self._routing = Routing()
        network = _load(model, dtype).to(device)
        network.requires_grad_(False)
        network.eval()
        self._decoder = network.model
        self.head: Tensor = network.lm_head.weight
        """[vocabulary, hidden]"""
        self.places = [*self._wrap_linears(), Place(HEAD, inputs=self.head.shape[1], outputs=self.head.shape[0])]
        config = network.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.cache_bytes_per_token: int = 2 * config.num_hidden_layers * heads * width * dtype.itemsize
        self.text = Text(model.path)
        self.end_tokens = frozenset(_end_tokens(model))
        """What ends a completion unless the caller says otherwise."""

    def _wrap_linears(self) -> list[Place]:
        places = []
        for path, module in list(self._decoder.named_modules()):
            parent, _, name = path.rpartition(".")
            if name in (*ATTENTION, *MLP):
                layer = LoraLinear(module, f"model.{path}", self._routing)
                setattr(self._decoder.get_submodule(parent), name, layer)
                places.append(Place(layer.path, inputs=module.in_features, outputs=module.out_features))
        return places

    def pad(self, sequences: Sequence[Any]) -> Padded:
        """Batch int64 arrays [n_i] of tokens."""
        width = max(len(sequence) for sequence in sequences)
        tokens = torch.zeros(len(sequences), width, dtype=torch.long)
        real = torch.zeros(len(sequences), width, dtype=torch.bool)
        for row, sequence in enumerate(sequences):
            tokens[row, : len(sequence)] = torch.as_tensor(sequence)
            real[row, : len(sequence)] = True
        return Padded(tokens.to(self.device), real.to(self.device))

    def hidden(
        self,
        tokens: Tensor,
        spans: Sequence[Span],
        *,
        cache: attention.PromptCache | attention.DecodeCache | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Final hidden states [B, T, hidden] of `tokens` [B, T]; without positions and mask, causal from position 0."""
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=self.device)[None]
        with self._routing.over(spans):
            states: Tensor = self._decoder.embed_tokens(tokens)
            rotary = self._decoder.rotary_emb(states, position_ids=positions)
            for layer in self._decoder.layers:
                states = layer(
                    states, attention_mask=mask, position_embeddings=rotary, past_key_values=cache, use_cache=False
                )
            normed: Tensor = self._decoder.norm(states)
        return normed

    def logits(self, states: Tensor, spans: Sequence[Span]) -> Tensor:
        """[n, hidden] to [n, vocabulary], in fp32; spans are counted in rows of `states`."""
        return lora_linear(states, self.head, None, parts(spans, HEAD, per_row=1)).float()

    @property
    def logit_rows(self) -> int:
        """How many rows of logits to hold at once."""
        return max(32, _LOGITS_AT_ONCE // self.head.shape[0])


def _load(model: BaseModel, dtype: torch.dtype) -> Any:
    """Load through the model's own module of `transformers`: the automatic classes take twice as long to import."""
    family = _FAMILIES[model.architecture]
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    with quiet_transformers():
        from transformers import AttentionInterface

        AttentionInterface.register(attention.ATTENTION, attention.attention)
        return getattr(module, model.architecture).from_pretrained(
            model.path, dtype=dtype, attn_implementation=attention.ATTENTION, local_files_only=True
        )


def _end_tokens(model: BaseModel) -> list[int]:
    for name in ("generation_config.json", "config.json"):
        file = model.path / name
        if file.is_file():
            ids = json.loads(file.read_text(encoding="utf-8")).get("eos_token_id")
            if ids is not None:
                return [ids] if isinstance(ids, int) else list(ids)
    return []
