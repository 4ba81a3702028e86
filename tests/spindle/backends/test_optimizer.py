"""AdamW steps against torch.optim, and what a step refuses."""

from dataclasses import asdict
from typing import Any

import pytest
import torch

from spindle.backends.contract import AdamParams, ForwardBackward, OptimizerConfig, UserError
from spindle.backends.torch_backend import TorchBackend
from tests.spindle.backends import tiny
from tests.spindle.backends.tiny import TinyModel

STEPS = [
    AdamParams(learning_rate=1e-2),
    AdamParams(learning_rate=3e-3, beta1=0.8, beta2=0.99, eps=1e-8, weight_decay=0.1),
    AdamParams(learning_rate=1e-2, grad_clip_norm=0.5),
]


def _gradient(backend: TorchBackend, model: TinyModel, seed: int) -> dict[str, torch.Tensor]:
    data = [tiny.cross_entropy_datum(12, seed=seed)]
    tiny.train(backend, ForwardBackward("m", data, "cross_entropy"))
    return {name: part.clone() for name, part in tiny.gradient(backend).items()}


def test_steps_are_those_of_torch(llama: TinyModel) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    parameters = backend._models["m"].adapter.parameters()
    mirror = {name: p.detach().clone().requires_grad_() for name, p in parameters.items()}
    optimizer = torch.optim.AdamW(mirror.values())
    norms = []
    for number, params in enumerate(STEPS, start=1):
        gradient = _gradient(backend, llama, seed=number)
        for name, leaf in mirror.items():
            leaf.grad = gradient[name]
        limit = params.grad_clip_norm or float("inf")
        norms.append(float(torch.nn.utils.clip_grad_norm_(mirror.values(), limit)))
        optimizer.param_groups[0].update(
            lr=params.learning_rate,
            betas=(params.beta1, params.beta2),
            eps=params.eps,
            weight_decay=params.weight_decay,
        )
        optimizer.step()
        applied = backend.optim_step("m", params)
        assert applied == {**asdict(params), "grad_norm": pytest.approx(norms[-1]), "step": number}
        for name, leaf in mirror.items():
            torch.testing.assert_close(parameters[name], leaf, rtol=1e-6, atol=1e-7)
    assert norms[-1] > STEPS[-1].grad_clip_norm, "the last step must have clipped"
    assert backend.info("m").step == len(STEPS)


def test_a_step_without_gradient_moves_by_momentum_alone(llama: TinyModel) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    parameters = backend._models["m"].adapter.parameters()
    start = {name: p.detach().clone() for name, p in parameters.items()}
    assert backend.optim_step("m", AdamParams(learning_rate=0.1))["grad_norm"] == 0
    assert all(torch.equal(parameters[name], start[name]) for name in start)
    _gradient(backend, llama, seed=1)
    backend.optim_step("m", AdamParams(learning_rate=0.1))
    moved = {name: p.detach().clone() for name, p in parameters.items()}
    backend.optim_step("m", AdamParams(learning_rate=0.1))
    assert all(not torch.equal(parameters[name], moved[name]) for name in moved)


def test_huge_epsilon_reveals_the_gradient(llama: TinyModel) -> None:
    """With learning_rate = eps = 1e8 the difference of two adapters is the gradient, to fp32 rounding."""
    backend = llama.backend()
    tiny.create(backend, llama)
    parameters = backend._models["m"].adapter.parameters()
    before = {name: p.detach().double() for name, p in parameters.items()}
    gradient = _gradient(backend, llama, seed=1)
    backend.optim_step("m", AdamParams(learning_rate=1e8, eps=1e8))
    for name, part in gradient.items():
        moved = before[name] - parameters[name].detach().double()
        assert float((moved - part).abs().max()) <= 1e-5 * float(part.abs().max())


@pytest.mark.parametrize(
    ("fixed", "changes", "sentence"),
    [
        ({"learning_rate": 1e-4}, {"learning_rate": 2e-4}, r"learning_rate was fixed at 0.0001 .* says 0.0002"),
        ({}, {"learning_rate": float("nan")}, "learning_rate must be finite and at least 0, found nan"),
        ({}, {"beta1": 1.0}, "beta1 must be at least 0 and below 1, found 1.0"),
        ({}, {"grad_clip_norm": -1.0}, "grad_clip_norm must be finite and at least 0, found -1.0"),
    ],
)
def test_a_refused_step_leaves_everything_as_it_was(
    llama: TinyModel, fixed: dict[str, float], changes: dict[str, Any], sentence: str
) -> None:
    backend = llama.backend()
    backend.create_model("m", llama.name, tiny.LORA, OptimizerConfig(fixed=fixed))
    before = {name: p.detach().clone() for name, p in backend._models["m"].adapter.parameters().items()}
    gradient = _gradient(backend, llama, seed=1)
    with pytest.raises(UserError, match=sentence):
        backend.optim_step("m", AdamParams(**changes))
    parameters = backend._models["m"].adapter.parameters()
    assert all(torch.equal(parameters[name], before[name]) for name in before)
    assert all(torch.equal(tiny.gradient(backend)[name], gradient[name]) for name in gradient)
    backend.optim_step("m", AdamParams(**fixed))
    assert backend.info("m").step == 1
