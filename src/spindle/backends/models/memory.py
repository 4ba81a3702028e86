"""How much memory a model needs, told from its files without loading it."""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from spindle.backends.contract import BaseModel
from spindle.backends.flags import flag_of
from spindle.backends.models.directory import ModelError, read_config

_BYTES = {"float32": 4, "bfloat16": 2}
_FP32 = 4
"""Bytes of a number in adapters, gradients and optimizer states, whatever the type of the base weights."""

_LOGITS = 3 << 26
"""Bytes of a block of logits (`base.logit_rows`), its logprobs and its gradient, 64 MiB each."""

_WIDTHS_KEPT = 12
"""Vectors of a layer's width kept per token for the backward pass: norms, attention's inputs and output, residuals."""
_INNER_WIDTHS_KEPT = 4
"""Vectors of an MLP's inner width kept per token."""


@dataclass(frozen=True)
class Memory:
    """Bytes that training and sampling one model take; estimates but for the first three."""

    weights: int
    """The base model, shared by all adapters."""
    adapter: int
    """One adapter on attention, MLP and head."""
    optimizer: int
    """Its gradient and the two moments of AdamW."""
    activations: int
    """A training pass over tokens computed at once."""
    cache: int
    """Sequences being sampled, each of full context length."""

    @property
    def total(self) -> int:
        return self.weights + self.adapter + self.optimizer + self.activations + self.cache


def estimate(info: BaseModel, rank: int, batch_tokens: int, sequences: int, dtype: str) -> Memory:
    """What a model takes with one adapter of a rank, `batch_tokens` trained at once and `sequences` sampled at once.

    Args:
        info: a model whose weights are in place.
        dtype: of the base weights, `float32` or `bfloat16`.
    """
    size = _BYTES[dtype]
    config = read_config(info.name, info.path)
    tensors = list(_tensors(info.path))
    adapter = _FP32 * rank * sum(_low_rank_width(tensor) for tensor in tensors)
    width = _first(config, "hidden_size", "n_embd", "d_model")
    head = _FP32 * rank * (width + info.vocabulary)
    layers = _first(config, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
    inner = max((max(tensor.shape) for tensor in tensors if _flag(tensor) == "train_mlp"), default=0)
    per_token = layers * (_WIDTHS_KEPT * width + _INNER_WIDTHS_KEPT * inner) * size
    return Memory(
        weights=size * sum(prod(tensor.shape) for tensor in tensors),
        adapter=adapter + head,
        optimizer=3 * (adapter + head),
        activations=batch_tokens * per_token + _LOGITS,
        cache=sequences * _row_cache(config, layers, width, info.context_length, size),
    )


def _row_cache(config: Mapping[str, Any], layers: int, width: int, context: int, size: int) -> int:
    """Bytes of the cache of one sequence of full context length."""
    kinds = config.get("layer_types") or ["full_attention"] * layers
    heads = _first(config, "num_attention_heads", "n_head", "n_heads")
    key_value_heads = config.get("num_key_value_heads") or heads
    per_token = 2 * key_value_heads * (config.get("head_dim") or width // heads) * size
    window = min(context, config.get("sliding_window") or context)
    recurrent = _FP32 * prod(
        config.get(name) or 0 for name in ("linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    )
    sizes = {"sliding_attention": window * per_token, "linear_attention": recurrent}
    return sum(sizes.get(kind, context * per_token) for kind in kinds)


class _Tensor(NamedTuple):
    name: str
    shape: tuple[int, ...]


def _tensors(model: Path) -> Iterator[_Tensor]:
    """What the safetensors files of a model hold, vision towers left out: their headers, 8 bytes of length and JSON."""
    for path in sorted(model.glob("*.safetensors")):
        for name, tensor in _header(path).items():
            if name != "__metadata__" and "visual" not in name and "vision" not in name:
                yield _Tensor(name, tuple(tensor["shape"]))


def _header(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            return dict(json.loads(file.read(min(length, path.stat().st_size))))
    except (ValueError, struct.error) as error:
        raise ModelError(f"{path} is no safetensors file ({error}); copy the model again.") from None


def _flag(tensor: _Tensor) -> str | None:
    path = tensor.name.removesuffix(".weight")
    return flag_of(path) if path != tensor.name and len(tensor.shape) == 2 else None


def _low_rank_width(tensor: _Tensor) -> int:
    """Rows of A and columns of B in all, per unit of rank; 0 where no adapter sits."""
    return sum(tensor.shape) if _flag(tensor) is not None else 0


def _first(config: Mapping[str, Any], *names: str) -> int:
    return next((int(config[name]) for name in names if config.get(name)), 0)
