"""Optimizer steps against torch.optim and float64 references, exact resume, and what a step refuses."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from numpy.typing import NDArray

from spindle.backends.contract import ForwardBackward, OptimizerConfig, OptimizerStep, UserError
from spindle.backends.torch_backend import TorchBackend
from tests.spindle.backends import tiny
from tests.spindle.backends.tiny import TinyModel

Matrix = NDArray[np.float64]

ADAM: dict[str, float] = {
    "learning_rate": 1e-4,
    "beta1": 0.9,
    "beta2": 0.95,
    "eps": 1e-12,
    "weight_decay": 0.0,
    "grad_clip_norm": 0.0,
}
"""What the client sends unless told otherwise."""

FAMILIES = ("adamw", "muon", "lora_muon")


def _adam(**changes: float) -> OptimizerStep:
    return OptimizerStep({**ADAM, **changes})


STEPS = [
    _adam(learning_rate=1e-2),
    _adam(learning_rate=3e-3, beta1=0.8, beta2=0.99, eps=1e-8, weight_decay=0.1),
    _adam(learning_rate=1e-2, grad_clip_norm=0.5),
]


def _backend(model: TinyModel, optimizer: OptimizerConfig, *, random: bool = True) -> TorchBackend:
    backend = model.backend()
    backend.create_model("m", model.name, tiny.LORA, optimizer)
    if random:
        tiny.randomize(backend, "m")
    return backend


def _gradient(backend: TorchBackend, seed: int) -> dict[str, torch.Tensor]:
    data = [tiny.cross_entropy_datum(12, seed=seed)]
    tiny.train(backend, ForwardBackward("m", data, "cross_entropy"))
    return {name: part.clone() for name, part in tiny.gradient(backend).items()}


def _parameters(backend: TorchBackend) -> dict[str, torch.Tensor]:
    return backend._models["m"].adapter.parameters()


def test_adamw_steps_are_those_of_torch(llama: TinyModel) -> None:
    backend = _backend(llama, OptimizerConfig())
    parameters = _parameters(backend)
    mirror = {name: p.detach().clone().requires_grad_() for name, p in parameters.items()}
    optimizer = torch.optim.AdamW(mirror.values())
    norms = []
    for number, step in enumerate(STEPS, start=1):
        values = {name: float(value) for name, value in step.values.items()}
        gradient = _gradient(backend, seed=number)
        for name, leaf in mirror.items():
            leaf.grad = gradient[name]
        limit = values["grad_clip_norm"] or float("inf")
        norms.append(float(torch.nn.utils.clip_grad_norm_(mirror.values(), limit)))
        optimizer.param_groups[0].update(
            lr=values["learning_rate"],
            betas=(values["beta1"], values["beta2"]),
            eps=values["eps"],
            weight_decay=values["weight_decay"],
        )
        optimizer.step()
        applied = backend.optim_step("m", step)
        assert applied == {**values, "grad_norm": pytest.approx(norms[-1]), "optimizer_step": number}
        for name, leaf in mirror.items():
            torch.testing.assert_close(parameters[name], leaf, rtol=1e-6, atol=1e-7)
    assert norms[-1] > float(STEPS[-1].values["grad_clip_norm"]), "the last step must have clipped"
    assert backend.info("m").step == len(STEPS)


def test_muon_steps_are_close_to_those_of_torch(llama: TinyModel) -> None:
    """torch.optim.Muon iterates in bfloat16, hence its distance; the float64 reference below is the sharp one."""
    backend = _backend(llama, OptimizerConfig("muon", {"scale": "moonlight"}))
    parameters = _parameters(backend)
    mirror = {name: p.detach().clone().requires_grad_() for name, p in parameters.items()}
    optimizer = torch.optim.Muon(mirror.values(), lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for number in range(1, 4):
        gradient = _gradient(backend, seed=number)
        before = {name: p.detach().clone() for name, p in parameters.items()}
        for name, leaf in mirror.items():
            leaf.grad = gradient[name]
            leaf.data.copy_(before[name])
        optimizer.step()  # type: ignore[no-untyped-call]
        backend.optim_step("m", _adam(learning_rate=0.02, weight_decay=0.1))
        for name, leaf in mirror.items():
            ours, theirs = parameters[name].detach() - before[name], leaf.detach() - before[name]
            assert float((ours - theirs).norm() / theirs.norm()) < 0.1, name


def _msign(matrix: Matrix) -> Matrix:
    """Five quintic Newton-Schulz steps, on the singular values."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    values = values / np.linalg.norm(values)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return np.asarray(left * values @ right)


def _muon(w: dict[str, Matrix], m: dict[str, Matrix], values: Mapping[str, Any]) -> dict[str, Matrix]:
    moved = {}
    for name, weight in w.items():
        rows, columns = weight.shape
        scales = {"keller": max(1, rows / columns) ** 0.5, "moonlight": 0.2 * max(rows, columns) ** 0.5}
        decayed = weight * (1 - values["learning_rate"] * values["weight_decay"])
        moved[name] = decayed - values["learning_rate"] * scales[values["scale"]] * _msign(m[name])
    return moved


def _lora_muon(w: dict[str, Matrix], m: dict[str, Matrix], values: Mapping[str, Any]) -> dict[str, Matrix]:
    def inverse_root(gram: Matrix) -> Matrix:
        return np.asarray(np.linalg.inv(scipy.linalg.sqrtm(gram + values["damping"] * np.eye(len(gram)))).real)

    moved = {}
    for name_a in [name for name in w if ".lora_A." in name]:
        name_b = name_a.replace(".lora_A.", ".lora_B.")
        a, b = w[name_a], w[name_b]
        root_a, root_b = inverse_root(a @ a.T), inverse_root(b.T @ b)
        half, decay = values["learning_rate"] / 2, 1 - values["learning_rate"] * values["weight_decay"]
        moved[name_b] = decay * b - half * _msign(m[name_b] @ root_a) @ root_a
        moved[name_a] = decay * a - half * root_b @ _msign(root_b @ m[name_a])
    return moved


@pytest.mark.parametrize(
    ("family", "reference", "fixed"),
    [
        ("muon", _muon, {"scale": "keller"}),
        ("muon", _muon, {"scale": "moonlight", "nesterov": 0.0, "momentum": 0.8}),
        ("lora_muon", _lora_muon, {"damping": 1e-3}),
        ("lora_muon", _lora_muon, {"nesterov": 0.0}),
    ],
)
def test_muon_steps_match_float64(
    llama: TinyModel, family: str, reference: Callable[..., dict[str, Matrix]], fixed: dict[str, Any]
) -> None:
    backend = _backend(llama, OptimizerConfig(family, fixed))
    defaults = {"scale": "keller", "nesterov": 1.0, "momentum": 0.95, "damping": 1e-4}
    values = {**defaults, **fixed, "learning_rate": 0.03, "weight_decay": 0.1}
    parameters = _parameters(backend)
    momenta = {name: np.zeros(p.shape) for name, p in parameters.items()}
    for number in range(1, 4):
        before = {name: p.detach().double().numpy() for name, p in parameters.items()}
        gradient = {name: part.double().numpy() for name, part in _gradient(backend, seed=number).items()}
        momenta = {name: values["momentum"] * momentum + gradient[name] for name, momentum in momenta.items()}
        along = {n: gradient[n] + values["momentum"] * m if values["nesterov"] else m for n, m in momenta.items()}
        expected = reference(before, along, values)
        applied = backend.optim_step("m", _adam(learning_rate=0.03, weight_decay=0.1))
        assert applied.keys() >= {
            "learning_rate",
            "weight_decay",
            "momentum",
            "nesterov",
            "grad_norm",
            "optimizer_step",
        }
        assert "scale" not in applied, "a text is no metric"
        for name, matrix in expected.items():
            moved = parameters[name].detach().double().numpy() - before[name]
            error = np.linalg.norm(moved - (matrix - before[name])) / np.linalg.norm(matrix - before[name])
            assert error < 1e-4, name


@pytest.mark.parametrize("family", ["muon", "lora_muon"])
def test_the_first_step_of_a_new_adapter_moves_b_alone(llama: TinyModel, family: str) -> None:
    backend = _backend(llama, OptimizerConfig(family), random=False)
    before = {name: p.detach().clone() for name, p in _parameters(backend).items()}
    _gradient(backend, seed=1)
    backend.optim_step("m", _adam(learning_rate=0.02))
    for name, parameter in _parameters(backend).items():
        assert torch.equal(parameter, before[name]) == (".lora_A." in name), name
        assert bool(torch.isfinite(parameter).all()), name


def test_lora_muon_moves_the_product_by_the_learning_rate(llama: TinyModel) -> None:
    """However the product is split into its factors; the matrix sign is only about one, hence the wide bounds."""
    changes = []
    for balance in (1.0, 8.0):
        backend = _backend(llama, OptimizerConfig("lora_muon", {"damping": 0.0}))
        pairs = backend._models["m"].adapter.pairs
        path = "model.layers.1.mlp.up_proj"
        with torch.no_grad():
            for pair in pairs.values():
                pair.a.mul_(balance)
                pair.b.div_(balance)
        before = (pairs[path].b @ pairs[path].a).detach().clone()
        _gradient(backend, seed=1)
        backend.optim_step("m", _adam(learning_rate=1e-3))
        changes.append((pairs[path].b @ pairs[path].a).detach() - before)
        assert 0.5e-3 < float(torch.linalg.matrix_norm(changes[-1], 2)) < 1.3e-3
    torch.testing.assert_close(changes[0], changes[1], rtol=1e-2, atol=2e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_resume_is_bit_identical(llama: TinyModel, empty: Path, family: str) -> None:
    def steps(backend: TorchBackend, seeds: range) -> None:
        for seed in seeds:
            _gradient(backend, seed)
            backend.optim_step("m", _adam(learning_rate=0.01, weight_decay=0.1))

    uninterrupted = _backend(llama, OptimizerConfig(family))
    steps(uninterrupted, range(2))
    uninterrupted.save_state("m", empty)
    resumed = llama.backend()
    resumed.create_model_from_state("m", empty, None, with_optimizer=True)
    assert resumed.info("m") == uninterrupted.info("m")
    for backend in (uninterrupted, resumed):
        steps(backend, range(2, 4))
    for name, parameter in _parameters(uninterrupted).items():
        assert torch.equal(_parameters(resumed)[name], parameter), name
    state, same = (backend._models["m"].optimizer.state() for backend in (uninterrupted, resumed))
    assert state.keys() == same.keys() != set()
    assert all(torch.equal(same[name], tensor) for name, tensor in state.items())


def test_a_family_is_never_swapped(llama: TinyModel, empty: Path) -> None:
    muon = _backend(llama, OptimizerConfig("muon"))
    _gradient(muon, seed=1)
    muon.optim_step("m", _adam())
    muon.save_state("m", empty)
    adamw = _backend(llama, OptimizerConfig())
    with pytest.raises(UserError, match=r"optimizer state is of 'muon', but this model was created with 'adamw'; load"):
        adamw.load_state("m", empty, with_optimizer=True)
    with pytest.raises(UserError, match="optimizer state is of 'muon', but this model was created with 'lora_muon'"):
        adamw.create_model_from_state("other", empty, OptimizerConfig("lora_muon"), with_optimizer=True)
    with pytest.raises(UserError, match="not loaded"):
        adamw.info("other")
    adamw.load_state("m", empty, with_optimizer=False)
    assert adamw.info("m").optimizer.type == "adamw"
    assert all(torch.equal(p, _parameters(muon)[name]) for name, p in _parameters(adamw).items())
    adamw.create_model_from_state("other", empty, None, with_optimizer=True)
    assert adamw.info("other").optimizer == OptimizerConfig("muon", {"nesterov": 1.0, "scale": "keller"})


def test_a_new_model_says_what_can_never_change(llama: TinyModel) -> None:
    backend = _backend(llama, OptimizerConfig("muon", {"scale": "moonlight", "momentum": 0.9}))
    assert backend.info("m").optimizer.fixed == {"nesterov": 1.0, "scale": "moonlight", "momentum": 0.9}
    applied = backend.optim_step("m", OptimizerStep())
    assert applied == {
        "learning_rate": 1e-3,
        "momentum": 0.9,
        "weight_decay": 0.0,
        "grad_clip_norm": 0.0,
        "nesterov": 1.0,
        "grad_norm": 0.0,
        "optimizer_step": 1.0,
    }
    own = OptimizerStep({"learning_rate": 0.5, "momentum": 0.9, "scale": "moonlight"}, "muon")
    assert backend.optim_step("m", own)["learning_rate"] == 0.5


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_without_gradient_moves_by_momentum_alone(llama: TinyModel, family: str) -> None:
    backend = _backend(llama, OptimizerConfig(family))
    parameters = _parameters(backend)
    start = {name: p.detach().clone() for name, p in parameters.items()}
    assert backend.optim_step("m", _adam(learning_rate=0.1))["grad_norm"] == 0
    assert all(torch.equal(parameters[name], start[name]) for name in start)
    _gradient(backend, seed=1)
    backend.optim_step("m", _adam(learning_rate=0.1))
    moved = {name: p.detach().clone() for name, p in parameters.items()}
    backend.optim_step("m", _adam(learning_rate=0.1))
    assert all(not torch.equal(parameters[name], moved[name]) for name in moved)


def test_huge_epsilon_reveals_the_gradient(llama: TinyModel) -> None:
    """With learning_rate = eps = 1e8 the difference of two adapters is the gradient, to fp32 rounding."""
    backend = _backend(llama, OptimizerConfig())
    before = {name: p.detach().double() for name, p in _parameters(backend).items()}
    gradient = _gradient(backend, seed=1)
    backend.optim_step("m", _adam(learning_rate=1e8, eps=1e8))
    for name, part in gradient.items():
        moved = before[name] - _parameters(backend)[name].detach().double()
        assert float((moved - part).abs().max()) <= 1e-5 * float(part.abs().max())


@pytest.mark.parametrize(
    ("config", "step", "sentence"),
    [
        (OptimizerConfig(fixed={"learning_rate": 1e-4}), _adam(learning_rate=2e-4), r"fixed at 0.0001 .* says 0.0002"),
        (
            OptimizerConfig(),
            _adam(learning_rate=float("nan")),
            r"learning_rate must be at least 0 and below 1e\+30, found nan",
        ),
        (
            OptimizerConfig(),
            _adam(learning_rate=float("inf")),
            r"learning_rate must be at least 0 and below 1e\+30, found inf",
        ),
        (OptimizerConfig("muon"), _adam(learning_rate=1e31), r"learning_rate must be .* found 1e\+31"),
        (OptimizerConfig(), _adam(beta1=1.0), "beta1 must be at least 0 and below 1, found 1.0"),
        (OptimizerConfig(), _adam(grad_clip_norm=-1.0), "grad_clip_norm must be at least 0 and below .* found -1.0"),
        (OptimizerConfig(), _adam(momentum=0.5), "'adamw' has no hyperparameter 'momentum'; it has learning_rate, be"),
        (OptimizerConfig(), OptimizerStep({"eps": "tiny"}), "eps must be at least 0 and below .* found tiny"),
        (OptimizerConfig(), OptimizerStep({}, "muon"), "created with the optimizer 'adamw', but this .* is for 'muon'"),
        (OptimizerConfig("muon"), OptimizerStep({"beta1": 0.9}, "muon"), "'muon' has no hyperparameter 'beta1'"),
        (OptimizerConfig("muon"), OptimizerStep({"scale": "moonlight"}, "muon"), "scale was fixed at keller .* moonl"),
        (OptimizerConfig("muon"), OptimizerStep({"scale": "none"}, "muon"), "scale must be one of keller, moonlight"),
        (OptimizerConfig("muon", {"weight_decay": 0.1}), _adam(), "weight_decay was fixed at 0.1 .* says 0.0"),
    ],
)
def test_a_refused_step_leaves_everything_as_it_was(
    llama: TinyModel, config: OptimizerConfig, step: OptimizerStep, sentence: str
) -> None:
    backend = _backend(llama, config)
    before = {name: p.detach().clone() for name, p in _parameters(backend).items()}
    gradient = _gradient(backend, seed=1)
    with pytest.raises(UserError, match=sentence):
        backend.optim_step("m", step)
    assert all(torch.equal(p, before[name]) for name, p in _parameters(backend).items())
    assert all(torch.equal(tiny.gradient(backend)[name], gradient[name]) for name in gradient)
    backend.optim_step("m", OptimizerStep(config.fixed))
    assert backend.info("m").step == 1


def test_lora_muon_refuses_weights_that_have_diverged(llama: TinyModel) -> None:
    backend = _backend(llama, OptimizerConfig("lora_muon"))
    with torch.no_grad():
        list(_parameters(backend).values())[-1].fill_(float("nan"))
    before = {name: p.detach().clone() for name, p in _parameters(backend).items()}
    with pytest.raises(UserError, match="the weights have diverged; go back to an earlier checkpoint"):
        backend.optim_step("m", OptimizerStep())
    for name, parameter in _parameters(backend).items():
        torch.testing.assert_close(parameter.detach(), before[name], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (OptimizerConfig("sgd"), "optimizer type 'sgd' is not offered here; choose one of adamw, muon, lora_muon"),
        (OptimizerConfig("dimuon"), r"'dimuon' is not offered here \(its update rule is not published\); choose one"),
        (OptimizerConfig("adamw", {"momentum": 0.9}), "'adamw' has no hyperparameter 'momentum'; it has learning_rate"),
        (OptimizerConfig("adamw", {"beta2": 1.5}), "beta2 must be at least 0 and below 1, found 1.5"),
        (OptimizerConfig("adamw", {"eps": "tiny"}), "eps must be at least 0 and below .* found tiny"),
        (OptimizerConfig("muon", {"scale": 1.0}), "scale must be one of keller, moonlight, found 1.0"),
        (OptimizerConfig("muon", {"nesterov": 0.5}), "nesterov must be one of 0.0, 1.0, found 0.5"),
        (OptimizerConfig("muon", {}, "ab12"), "comes from a plugin file with the SHA-256 ab12, but here it is built"),
    ],
)
def test_an_optimizer_that_cannot_be_chosen(llama: TinyModel, config: OptimizerConfig, sentence: str) -> None:
    backend = llama.backend()
    with pytest.raises(UserError, match=sentence):
        backend.check_model(llama.name, tiny.LORA, config)
    with pytest.raises(UserError, match=sentence):
        backend.create_model("m", llama.name, tiny.LORA, config)
