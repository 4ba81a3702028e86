"""Random models small enough to compute anything twice, and requests to them."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spindle.backends.contract import (
    Array,
    BaseModel,
    Datum,
    ForwardBackward,
    ForwardBackwardResult,
    LoraShape,
    OptimizerConfig,
    SampleRequest,
    SampleResult,
    SamplingParams,
    UserError,
)
from spindle.backends.models import inspect
from spindle.backends.torch_backend import TorchBackend

FAMILIES = [("Llama", True), ("Llama", False), ("Qwen2", True), ("Qwen3", False), ("Qwen3_5", True), ("Gemma2", True)]
"""Architectures, and whether the output head is tied to the embedding."""

_OWN_CONFIGURATION: dict[str, dict[str, Any]] = {
    "Qwen3_5": {
        "num_hidden_layers": 4,
        "initializer_range": 0.1,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    },
    "Mistral": {"sliding_window": 8},
    "Gemma2": {
        "sliding_window": 8,
        "query_pre_attn_scalar": 8,
        "final_logit_softcapping": 5.0,
        "attn_logit_softcapping": 2.0,
        "attn_implementation": "eager",  # the only one that caps scores
    },
    "Granite": {"logits_scaling": 3.0, "residual_multiplier": 0.7, "embedding_multiplier": 2.0},
    "Cohere": {"logit_scale": 0.4},
    "GPT2": {"n_inner": 48},
    "Qwen3Moe": {"moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2},
    "Mamba": {"state_size": 8},
}
VOCABULARY = 101
CONTEXT = 96
LORA = LoraShape(rank=4, seed=7)


@dataclass(frozen=True)
class TinyModel:
    name: str
    path: Path
    network: Any
    """The library's own model, fp32."""
    tied: bool

    @property
    def info(self) -> BaseModel:
        return inspect(self.name, self.path)

    def backend(self) -> TorchBackend:
        return TorchBackend([self.info], torch.device("cpu"))


def write_model(path: Path, family: str, *, tied: bool, **own: Any) -> TinyModel:
    """Save a random model of an architecture, with biases that are not zero where it has any.

    Args:
        own: settings of this model's configuration.
    """
    library = importlib.import_module("transformers")
    network_class = getattr(library, f"{family}ForCausalLM", None) or getattr(library, f"{family}LMHeadModel")
    options: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": tied,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "initializer_range": 0.3,
    }
    torch.manual_seed(3)
    config = network_class.config_class(**options | _OWN_CONFIGURATION.get(family, {}) | own)
    network = network_class(config).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
            elif name.endswith("A_log"):
                parameter.uniform_(-4, -1)  # a recurrent state that lasts for many tokens
    network.save_pretrained(path)
    return TinyModel(f"tiny/{family.lower()}-{'tied' if tied else 'untied'}", path, network, tied)


def tokens(length: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(3, VOCABULARY, length)


def cross_entropy_datum(length: int, seed: int = 0) -> Datum:
    draw = np.random.default_rng(seed + 1000)
    weights = draw.normal(size=length).astype(np.float32)
    return Datum(tokens(length, seed), {"target_tokens": tokens(length, seed + 1), "weights": weights})


def importance_sampling_datum(length: int, seed: int = 0) -> Datum:
    draw = np.random.default_rng(seed + 2000)
    inputs = {
        "target_tokens": tokens(length, seed + 1),
        "logprobs": -draw.uniform(3, 6, size=length).astype(np.float32),
        "advantages": draw.normal(size=length).astype(np.float32),
    }
    inputs["advantages"][: length // 2] = 0
    return Datum(tokens(length, seed), inputs)


def create(backend: TorchBackend, model: TinyModel, model_id: str = "m", lora: LoraShape = LORA) -> None:
    """Create a model whose B matrices are not zero, so that the adapter does something."""
    backend.create_model(model_id, model.name, lora, OptimizerConfig())
    randomize(backend, model_id)


def randomize(backend: TorchBackend, model_id: str, seed: int = 11) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for pair in backend._models[model_id].adapter.pairs.values():
            pair.b.normal_(std=0.05, generator=generator)


def train(backend: TorchBackend, request: ForwardBackward) -> ForwardBackwardResult:
    (result,) = backend.forward_backward([request])
    if isinstance(result, UserError):
        raise result
    return result


def sample(
    backend: TorchBackend,
    model: TinyModel,
    prompt: Array,
    params: SamplingParams,
    *,
    num_samples: int = 1,
    adapter: Path | None = None,
    prompt_logprobs: bool = False,
) -> SampleResult:
    request = SampleRequest(model.name, adapter, prompt, num_samples, params, prompt_logprobs)
    (result,) = backend.sample([request])
    if isinstance(result, UserError):
        raise result
    return result


def gradient(backend: TorchBackend, model_id: str = "m") -> dict[str, torch.Tensor]:
    """What forward_backward calls added up so far."""
    return backend._models[model_id].gradient
