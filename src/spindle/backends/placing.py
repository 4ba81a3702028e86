"""LoRA layers in place of the linear maps of a network of any architecture."""

from typing import Any

from torch import nn

from spindle.backends.flags import flag_of
from spindle.backends.lora import LoraLinear, Place, Routing


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
