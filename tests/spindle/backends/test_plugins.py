"""Plugin files: what they bring is offered, trained and restored like our own, and every failure is one sentence."""

import hashlib
from pathlib import Path

import pytest
import torch

from spindle.backends import plugins
from spindle.backends.contract import (
    ForwardBackward,
    ForwardBackwardResult,
    OptimizerConfig,
    OptimizerStep,
    PluginError,
    UserError,
)
from spindle.backends.torch_backend import TorchBackend
from tests.spindle.backends import reference, tiny
from tests.spindle.backends.tiny import TinyModel

EXAMPLE = Path(__file__).with_name("example_plugin.py")
SIGN = OptimizerConfig("example_sign", {"memory": 0.5})


def _backend(model: TinyModel, *paths: Path) -> TorchBackend:
    return TorchBackend([model.info], torch.device("cpu"), torch.float32, plugins.load(paths))


def test_a_loss_from_a_file_is_one_like_any_other(llama: TinyModel) -> None:
    backend = _backend(llama, EXAMPLE)
    tiny.create(backend, llama)
    data = [tiny.cross_entropy_datum(9), tiny.cross_entropy_datum(14, seed=2)]
    expected = reference.evaluate(
        llama, backend, data, lambda lp, inputs: (inputs["weights"] * (lp + 2.0).square()).sum()
    )
    result = tiny.train(backend, ForwardBackward("m", data, "example_squared", {"target": -2.0}))
    assert result.metrics["loss:sum"] == pytest.approx(expected.loss, rel=1e-5)
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)
    with pytest.raises(UserError, match=r"no setting 'goal' in loss_fn_config; it has target \(default 0.0\)"):
        tiny.train(backend, ForwardBackward("m", data, "example_squared", {"goal": -2.0}))
    with pytest.raises(UserError, match=r"'other' is not offered here; choose one of cross_entropy.*, example_squared"):
        tiny.train(backend, ForwardBackward("m", data, "other"))


def test_an_optimizer_from_a_file_is_one_like_any_other(llama: TinyModel, empty: Path) -> None:
    sha256 = hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()
    backend = _backend(llama, EXAMPLE)
    [info] = backend.plugins()
    assert (info.path, info.sha256, info.provides) == (
        EXAMPLE,
        sha256,
        ("loss example_squared", "optimizer example_sign"),
    )
    backend.create_model("m", llama.name, tiny.LORA, SIGN)
    assert backend.info("m").optimizer == OptimizerConfig("example_sign", {"memory": 0.5}, sha256)
    parameters = backend._models["m"].adapter.parameters()
    before = {name: p.detach().clone() for name, p in parameters.items()}
    tiny.train(backend, ForwardBackward("m", [tiny.cross_entropy_datum(9)], "cross_entropy"))
    gradient = {name: part.clone() for name, part in tiny.gradient(backend).items()}
    applied = backend.optim_step("m", OptimizerStep({"learning_rate": 0.1, "beta1": 0.9}))
    assert applied.keys() == {"learning_rate", "memory", "grad_clip_norm", "grad_norm", "optimizer_step", "steps_seen"}
    for name, parameter in parameters.items():
        torch.testing.assert_close(parameter, before[name] - 0.1 * gradient[name].sign())

    backend.save_state("m", empty)
    backend.create_model_from_state("again", empty, None, with_optimizer=True)
    assert backend.info("again").optimizer == backend.info("m").optimizer
    state, restored = (backend._models[name].optimizer.state() for name in ("m", "again"))
    assert state.keys() == restored.keys() != set()
    assert all(torch.equal(restored[name], tensor) for name, tensor in state.items())


def test_a_state_is_not_restored_by_another_version_of_its_plugin(
    llama: TinyModel, empty: Path, tmp_path: Path
) -> None:
    backend = _backend(llama, EXAMPLE)
    backend.create_model("m", llama.name, tiny.LORA, SIGN)
    backend.optim_step("m", OptimizerStep())
    backend.save_state("m", empty)
    changed = tmp_path / "changed.py"
    changed.write_text(EXAMPLE.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    before, after = (hashlib.sha256(file.read_bytes()).hexdigest() for file in (EXAMPLE, changed))
    other = _backend(llama, changed)
    with pytest.raises(UserError, match=f"SHA-256 {before}, but here it comes from a plugin file with .* {after}"):
        other.create_model_from_state("m", empty, None, with_optimizer=True)
    other.create_model("m", llama.name, tiny.LORA, SIGN)
    with pytest.raises(UserError, match=f"SHA-256 {before}, but here that optimizer comes from .* {after}; start"):
        other.load_state("m", empty, with_optimizer=True)
    other.load_state("m", empty, with_optimizer=False)
    without = _backend(llama)
    with pytest.raises(UserError, match="'example_sign' is not offered here; choose one of adamw, muon, lora_muon"):
        without.create_model_from_state("m", empty, None, with_optimizer=True)
    with pytest.raises(UserError, match=f"wanted as it comes from .* {after}, but here it comes from .* {before}"):
        backend.check_model(llama.name, tiny.LORA, OptimizerConfig("example_sign", {}, after))


def _family(name: str, default: str = "0.1") -> str:
    return f"Family({name!r}, (Hyperparameter('x', {default}, below=1),), lambda update: {{}})"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            "x = 1\n\nimport nothing_of_this_name",
            r"cannot be imported \(ModuleNotFoundError in line 3: No module named",
        ),
        ("def f(:", r"cannot be imported \(SyntaxError"),
        ("raise SystemExit(3)", r"cannot be imported \(SystemExit in line 1: 3\)"),
        ("", "brings nothing; define LOSSES or OPTIMIZERS"),
        ("LOSSES = {}", "defines LOSSES as dict; make it a list"),
        ("LOSSES = [len]", "has <built-in function len> in LOSSES; put a TokenLoss or a DatumLoss"),
        ("LOSSES = [TokenLoss(name='a', inputs=(), terms=None)]", "gives the loss 'a' no function"),
        ("LOSSES = [TokenLoss(name='ppo', inputs=(), terms=len)]", "the loss name 'ppo', which belongs to Spindle or"),
        ("LOSSES = [TokenLoss(name='custom', inputs=(), terms=len)]", "the loss name 'custom', which belongs to"),
        (
            "LOSSES = [TokenLoss(name='My Loss', inputs=(), terms=len)]",
            "the loss name 'My Loss'; use lower-case letters",
        ),
        (f"OPTIMIZERS = [{_family('adamw')}]", "takes the optimizer name 'adamw', which belongs to Spindle or Tinker"),
        (
            f"OPTIMIZERS = [{_family('dimuon')}]",
            "takes the optimizer name 'dimuon', which belongs to Spindle or Tinker",
        ),
        (f"OPTIMIZERS = [{_family('a')}] * 2", "the optimizer name 'a', which belongs to another plugin"),
        (
            f"OPTIMIZERS = [{_family('a', '1.5')}]",
            "'x' of optimizer 'a' must .* default that is at least 0 and below 1",
        ),
        ("OPTIMIZERS = [Family('a', (), None)]", "gives the optimizer 'a' no function for its step"),
        ("OPTIMIZERS = [Update]", "in OPTIMIZERS; put a Family of spindle.plugins there"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, content: str, sentence: str) -> None:
    file = tmp_path / "plugin.py"
    imports = "from spindle.plugins import *\n" if "[" in content else ""
    file.write_text(imports + content, encoding="utf-8")
    with pytest.raises(PluginError, match=sentence) as caught:
        plugins.load([file])
    assert str(caught.value).startswith(f"plugin {file} ") or f"plugin {file}: " in str(caught.value)
    assert "\n" not in str(caught.value)


BROKEN = """
import torch
from spindle.plugins import *

def half_a_step(update):
    for name, parameter in update.adapter.parameters().items():
        update.remembered(name, parameter).add_(1.0)
        parameter.add_(1.0)
        if ".layers.1." in name:
            raise RuntimeError("out of ideas")

OPTIMIZERS = [Family("half", (GRAD_CLIP_NORM,), half_a_step)]
LOSSES = [
    TokenLoss(name="raises", inputs=(), terms=lambda lp, inputs, config: inputs["nothing"]),
    TokenLoss(name="wide", inputs=(), terms=lambda lp, inputs, config: lp[:, 0] * lp),
    TokenLoss(name="number", inputs=(), terms=lambda lp, inputs, config: 1.0),
    TokenLoss(name="constant", inputs=(), terms=lambda lp, inputs, config: lp.detach() * 0 + 2),
    TokenLoss(name="badly_named", inputs=(), terms=lambda lp, inputs, config: lp, metrics=lambda *_: {"a": 1}),
    TokenLoss(name="forgets", inputs=(), terms=lambda lp, inputs, config: lp, metrics=lambda *_: None),
    DatumLoss(name="single", inputs=(), datum=lambda lp, inputs, config: lp.sum()),
    DatumLoss(name="words", inputs=(), datum=lambda lp, inputs, config: (lp.sum(), {"a:max": "many"})),
    DatumLoss(name="vector", inputs=(), datum=lambda lp, inputs, config: (lp, {})),
    DatumLoss(name="median", inputs=(), datum=lambda lp, inputs, config: (lp.sum(), {"a:median": 1.0})),
    DatumLoss(name="counts", inputs=(), datum=lambda lp, inputs, config: (-lp.sum(), {"a:max": lp.numel()})),
]
"""


def test_a_mistake_in_a_plugin_fails_its_request_alone(llama: TinyModel, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(BROKEN, encoding="utf-8")
    backend = _backend(llama, file)
    backend.create_model("m", llama.name, tiny.LORA, OptimizerConfig("half"))
    data = [tiny.cross_entropy_datum(5), tiny.cross_entropy_datum(8)]
    sentences = {
        "raises": rf"the loss 'raises' of plugin {file} failed \(KeyError: 'nothing'\); correct the plugin\.",
        "wide": r"'wide' of plugin .* gave \[13, 13\] for logprobs \[13, 1\]; correct the plugin\.",
        "number": r"'number' of plugin .* gave float for logprobs",
        "badly_named": r"'badly_named' of plugin .* gave the metric 'a'; call it NAME:sum",
        "forgets": r"'forgets' of plugin .* failed \(TypeError: .*\); correct the plugin\.",
        "single": r"'single' of plugin .* failed \(TypeError: .*\); correct the plugin\.",
        "words": r"'words' of plugin .* failed \(ValueError: .*\); correct the plugin\.",
        "vector": r"'vector' of plugin .* did not give a scalar tensor",
        "median": r"'median' of plugin .* gave the metric 'a:median'; call it NAME:sum",
    }
    for name, sentence in sentences.items():
        with pytest.raises(UserError, match=sentence):
            tiny.train(backend, ForwardBackward("m", data, name))
    assert tiny.gradient(backend) == {}
    sound, mistaken = backend.forward_backward(
        [ForwardBackward("m", data, "constant"), ForwardBackward("m", data, "badly_named")]
    )
    assert isinstance(sound, ForwardBackwardResult)
    assert sound.metrics["loss:sum"] == 26
    assert not any(part.any() for part in tiny.gradient(backend).values())
    assert isinstance(mistaken, UserError)
    assert tiny.train(backend, ForwardBackward("m", data, "counts")).metrics["a:max"] == 8

    model = backend._models["m"]
    before = {name: p.detach().clone() for name, p in model.adapter.parameters().items()}
    with pytest.raises(
        UserError, match=rf"the optimizer 'half' of plugin {file} failed \(RuntimeError: out of ideas\)"
    ):
        backend.optim_step("m", OptimizerStep())
    assert all(torch.equal(p, before[name]) for name, p in model.adapter.parameters().items())
    assert model.optimizer.state() == {}
    assert tiny.gradient(backend) != {}
    assert backend.info("m").step == 0


def test_files_that_are_not_there_or_clash(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"none\.py cannot be read \(No such file or directory\); name an existing"):
        plugins.load([tmp_path / "none.py"])
    with pytest.raises(PluginError, match=r"cannot be read \(Is a directory\)"):
        plugins.load([tmp_path])
    copy = tmp_path / "copy.py"
    copy.write_bytes(EXAMPLE.read_bytes())
    with pytest.raises(PluginError, match="the loss name 'example_squared', which belongs to another plugin"):
        plugins.load([EXAMPLE, copy])
    assert plugins.load([]) == plugins.Plugins()


def test_what_runs_is_what_was_hashed(tmp_path: Path) -> None:
    """Not a compiled file left behind by an earlier version."""
    file = tmp_path / "plugin.py"
    names: list[str] = []
    for name in ("one", "two"):
        file.write_text(f"from spindle.plugins import *\nOPTIMIZERS = [{_family(name)}]\n", encoding="utf-8")
        loaded = plugins.load([file])
        names += loaded.families
        assert loaded.files[0].sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert names == ["one", "two"]
