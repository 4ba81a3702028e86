"""LoRA computed the plain way, in float64: merged weights through the library's model, gradients by autograd."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from spindle.backends.contract import Datum
from spindle.backends.lora import HEAD
from spindle.backends.torch_backend import TorchBackend
from tests.spindle.backends.tiny import TinyModel

Loss = Callable[[Tensor, dict[str, Tensor]], Tensor]


def cross_entropy(logprobs: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    return -(inputs["weights"] * logprobs).sum()


def importance_sampling(logprobs: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    return -((logprobs - inputs["logprobs"]).exp() * inputs["advantages"]).sum()


@dataclass(frozen=True)
class Reference:
    logprobs: list[Tensor]
    loss: float
    gradient: dict[str, Tensor]


def evaluate(model: TinyModel, backend: TorchBackend, data: list[Datum], loss: Loss, model_id: str = "m") -> Reference:
    """Loss, logprobs and gradient of the adapter of a model in training."""
    config = copy.deepcopy(model.network.config)
    config._experts_implementation = "eager"  # the library's default one has no float64
    network = type(model.network)(config).double().eval()
    network.load_state_dict(model.network.state_dict())
    adapter = backend._models[model_id].adapter
    leaves = {name: p.detach().double().requires_grad_() for name, p in adapter.parameters().items()}
    merged: dict[str, Tensor] = {name: p.detach() for name, p in network.named_parameters()}
    merged["lm_head.weight"] = network.lm_head.weight.detach()
    for path, pair in adapter.pairs.items():
        update = pair.scaling * leaves[f"{path}.lora_B.weight"] @ leaves[f"{path}.lora_A.weight"]
        name = "lm_head.weight" if path == HEAD else f"{path}.weight"
        merged[name] = merged[name] + (update if _is_linear(network, name) else update.T)
    total = torch.zeros((), dtype=torch.float64)
    found = []
    for datum in data:
        ids = torch.tensor(datum.tokens)[None]
        called = torch.func.functional_call(network, merged, (ids,), {"use_cache": False}, tie_weights=False)
        targets = torch.tensor(datum.loss_inputs["target_tokens"])
        columns = targets.reshape(len(targets), -1)
        logprobs = torch.log_softmax(called.logits[0], -1).gather(1, columns).view(targets.shape)
        inputs = {
            name: torch.tensor(np.asarray(values, np.float64))
            for name, values in datum.loss_inputs.items()
            if name != "target_tokens"
        }
        total = total + loss(logprobs, inputs)
        found.append(logprobs.detach())
    gradients = torch.autograd.grad(total, list(leaves.values()))
    return Reference(found, float(total.detach()), dict(zip(leaves, gradients, strict=True)))


def assert_gradients(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Equal up to fp32 rounding of the largest entries, which are sums over all tokens."""
    assert found.keys() == expected.keys()
    for name, part in expected.items():
        error = float((found[name].double() - part.double()).abs().max())
        assert error <= 3e-5 * float(part.abs().max()), (name, error, float(part.abs().max()))


def _is_linear(network: nn.Module, weight: str) -> bool:
    """False for a convolution as in GPT-2, whose weight is [in, out]."""
    return isinstance(network.get_submodule(weight.rpartition(".")[0]), nn.Linear)
