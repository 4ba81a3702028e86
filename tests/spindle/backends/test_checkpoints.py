"""Adapters and states on disk: their layout, exact resume, and what does not load."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from safetensors.torch import load_file

from spindle.backends.contract import (
    ForwardBackward,
    LoraShape,
    OptimizerConfig,
    OptimizerStep,
    SamplingParams,
    UserError,
)
from spindle.backends.torch_backend import TorchBackend
from tests.spindle.backends import tiny
from tests.spindle.backends.tiny import TinyModel


def _train(backend: TorchBackend, model_id: str, steps: range) -> None:
    for step in steps:
        data = [tiny.importance_sampling_datum(10 + step, seed=step), tiny.importance_sampling_datum(7, seed=step + 50)]
        tiny.train(backend, ForwardBackward(model_id, data, "importance_sampling"))
        chosen = {"learning_rate": 1e-2, "weight_decay": 0.01, "grad_clip_norm": 1.0}
        backend.optim_step(model_id, OptimizerStep(chosen))


def _assert_same(first: TorchBackend, second: TorchBackend) -> None:
    a, b = (backend._models["m"] for backend in (first, second))
    assert a.info == b.info
    for left, right in ((a.adapter.parameters(), b.adapter.parameters()), (a.optimizer.state(), b.optimizer.state())):
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("way", ["create_model_from_state", "load_state"])
def test_resume_is_bit_identical(model: TinyModel, empty: Path, way: str) -> None:
    uninterrupted = model.backend()
    optimizer = OptimizerConfig(fixed={"learning_rate": 1e-2})
    uninterrupted.create_model("m", model.name, LoraShape(rank=4, seed=7, train_unembed=False), optimizer)
    _train(uninterrupted, "m", range(3))
    uninterrupted.save_state("m", empty)
    _train(uninterrupted, "m", range(3, 6))

    resumed = model.backend()
    if way == "load_state":
        resumed.create_model("m", model.name, LoraShape(rank=4, seed=7, train_unembed=False), optimizer)
        _train(resumed, "m", range(1))
        resumed.load_state("m", empty, with_optimizer=True)
    else:
        resumed.create_model_from_state("m", empty, None, with_optimizer=True)
    _train(resumed, "m", range(3, 6))
    _assert_same(uninterrupted, resumed)


def test_without_the_optimizer_training_starts_with_fresh_moments(llama: TinyModel, empty: Path) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    _train(backend, "m", range(2))
    backend.save_state("m", empty)
    weights = {name: p.detach().clone() for name, p in backend._models["m"].adapter.parameters().items()}
    backend.create_model_from_state("fresh", empty, OptimizerConfig(fixed={"beta1": 0.5}), with_optimizer=False)
    fresh = backend._models["fresh"]
    assert fresh.info.step == 0
    assert fresh.info.optimizer.fixed == {"beta1": 0.5}
    assert fresh.optimizer.state() == {}
    assert all(torch.equal(p, weights[name]) for name, p in fresh.adapter.parameters().items())


def test_loading_forgets_a_gradient_not_yet_applied(llama: TinyModel, empty: Path) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    backend.save_state("m", empty)
    tiny.train(backend, ForwardBackward("m", [tiny.cross_entropy_datum(5)], "cross_entropy"))
    backend.load_state("m", empty, with_optimizer=True)
    assert backend.optim_step("m", OptimizerStep())["grad_norm"] == 0


def test_an_adapter_is_a_peft_directory(llama: TinyModel, empty: Path) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    backend.save_adapter("m", empty)
    assert sorted(file.name for file in empty.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    config = json.loads((empty / "adapter_config.json").read_text(encoding="utf-8"))
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 4, 32)
    assert config["base_model_name_or_path"] == llama.name
    tensors = load_file(empty / "adapter_model.safetensors")
    assert tensors["base_model.model.model.unembed_tokens.lora_B.weight"].shape == (tiny.VOCABULARY, 4)
    assert tensors["base_model.model.model.layers.2.self_attn.k_proj.lora_A.weight"].shape == (4, 32)
    assert len(tensors) == 2 * (3 * 7 + 1)


def test_peft_loads_an_adapter_and_computes_what_we_do(model: TinyModel, empty: Path) -> None:
    """All but a trained head, which peft knows under no name that tied models could carry; converters map ours."""
    backend = model.backend()
    tiny.create(backend, model, lora=LoraShape(rank=4, seed=1, train_unembed=False))
    tiny.randomize(backend, "m")
    backend.save_adapter("m", empty)
    attention = model.network.config._attn_implementation
    network = type(model.network).from_pretrained(model.path, attn_implementation=attention)
    loaded: Any = peft.PeftModel.from_pretrained(network, empty)
    datum = tiny.cross_entropy_datum(23)
    with torch.no_grad():
        logprobs = torch.log_softmax(loaded(torch.tensor(datum.tokens)[None]).logits[0], -1)
    result = tiny.train(backend, ForwardBackward("m", [datum], "cross_entropy", forward_only=True))
    chosen = logprobs[range(23), datum.loss_inputs["target_tokens"]]
    np.testing.assert_allclose(result.outputs[0]["logprobs"], chosen, atol=1e-5)


def test_files_that_do_not_load(llama: TinyModel, model: TinyModel, empty: Path, tmp_path: Path) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    before = {name: p.detach().clone() for name, p in backend._models["m"].adapter.parameters().items()}
    with pytest.raises(UserError, match=r"is not a saved training state: it has no state\.json"):
        backend.load_state("m", empty, with_optimizer=True)
    backend.create_model("other", llama.name, LoraShape(rank=5, seed=1), OptimizerConfig())
    backend.save_state("other", empty)
    with pytest.raises(UserError, match=r"do not fit this model: .* is \[5, 64\] there and \[4, 64\] here"):
        backend.load_state("m", empty, with_optimizer=True)
    foreign = model.backend()
    if model.name != llama.name:
        with pytest.raises(UserError, match="base model 'tiny/llama-tied' is not served here"):
            foreign.create_model_from_state("m", empty, None, with_optimizer=True)
    (empty / "adapter_model.safetensors").write_bytes(b"torn")
    with pytest.raises(UserError, match=r"adapter_model\.safetensors is damaged"):
        backend.load_state("m", empty, with_optimizer=True)
    with pytest.raises(UserError, match=r"adapter_model\.safetensors is damaged"):
        tiny.sample(backend, llama, tiny.tokens(3), SamplingParams(max_tokens=1), adapter=empty)
    with pytest.raises(UserError, match="is not a saved adapter"):
        tiny.sample(backend, llama, tiny.tokens(3), SamplingParams(max_tokens=1), adapter=tmp_path)
    parameters = backend._models["m"].adapter.parameters()
    assert all(torch.equal(parameters[name], before[name]) for name in before)


def test_the_weights_of_a_saved_adapter_can_be_trained_on(llama: TinyModel, empty: Path) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    tiny.train(backend, ForwardBackward("m", [tiny.cross_entropy_datum(5)], "cross_entropy"))
    backend.save_adapter("m", empty)
    lora = backend.info("m").lora
    backend.create_model("other", llama.name, replace(lora, seed=77), OptimizerConfig())
    backend.load_state("other", empty, with_optimizer=False)
    weights, loaded = (backend._models[name].adapter.parameters() for name in ("m", "other"))
    assert all(torch.equal(loaded[name], parameter) for name, parameter in weights.items())
    assert backend.info("other").step == 0
    with pytest.raises(UserError, match="is not a saved training state"):
        backend.load_state("other", empty, with_optimizer=True)
