"""The linear maps of a network of any architecture, and which part each belongs to, told from its module path."""

import re
from typing import Any

from torch import nn

from spindle.backends.lora import Flag, LoraLinear, Place, Routing

_ATTENTION = re.compile(r"attn|attention|mamba|ssm|recurrent|temporal_block|conv")
_MLP = re.compile(r"mlp|ffn|ffw|feed_?forward|moe|shared_expert|intermediate")
_MLP_LEAF = re.compile(r"(gate|up|down|gate_up)_proj|fc\d|fc_(in|out)|c_fc|dense_h_to_4h|dense_4h_to_h")
_ROUTER = re.compile(r"gate|router|shared_expert_gate")


def wrap_linears(network: Any, routing: Routing) -> list[Place]:
    """Put a `LoraLinear` in place of each linear map that adapters may change."""
    from transformers.pytorch_utils import Conv1D

    places = []
    for path, module in list(network.named_modules()):
        linear = _transposed(module) if isinstance(module, Conv1D) else module
        flag = flag_of(path)
        if isinstance(linear, nn.Linear) and flag is not None:
            parent, _, name = path.rpartition(".")
            setattr(network.get_submodule(parent), name, LoraLinear(linear, path, routing))
            places.append(Place(path, linear.in_features, linear.out_features, flag))
    return places


def _transposed(convolution: Any) -> nn.Linear:
    """The linear map that GPT-2 writes as a convolution: its weight is [in, out]."""
    inputs, outputs = convolution.weight.shape
    linear = nn.Linear(inputs, outputs, device="meta")
    linear.weight = nn.Parameter(convolution.weight.T, requires_grad=False)
    linear.bias = convolution.bias
    return linear


def flag_of(path: str) -> Flag | None:
    """The field of `LoraShape` that covers a linear map, or None where adapters have no place.

    Attention includes what stands in its stead in a hybrid layer (linear attention, state space, convolution). Routers
    and routed experts of a mixture are left alone: which few experts a token passes would change with the adapter.
    """
    *blocks, leaf = path.split(".")
    if "experts" in blocks or any(map(_ROUTER.fullmatch, (*blocks, leaf))):
        return None
    for block in reversed(blocks):
        if _ATTENTION.search(block):
            return "train_attn"
        if _MLP.search(block):
            return "train_mlp"
    if _MLP_LEAF.fullmatch(leaf):
        return "train_mlp"
    return "train_attn" if "mixer" in blocks else None
