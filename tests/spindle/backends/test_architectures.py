"""Any causal language model: its numbers are the library's, its gradients autograd's, and what differs is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from safetensors.torch import load_file, save_file

from spindle.backends.base import Base
from spindle.backends.contract import (
    BaseModel,
    ForwardBackward,
    LoraShape,
    OptimizerConfig,
    SamplingParams,
    UserError,
)
from spindle.backends.generic import GenericBase, GenericCache
from spindle.backends.layered import LayeredBase
from spindle.backends.lora import HEAD, Span
from spindle.backends.models import inspect
from spindle.backends.models.memory import estimate
from spindle.backends.torch_backend import TorchBackend
from tests.spindle.backends import reference, tiny
from tests.spindle.backends.tiny import CONTEXT, VOCABULARY, TinyModel, write_model

GENERIC = [
    ("Qwen3_5", True),
    ("Qwen3_5", False),
    ("Mistral", False),  # sliding windows
    ("Gemma2", True),  # every other window sliding, scores and logits softly capped
    ("Granite", True),  # multipliers
    ("Cohere", True),  # parallel layers, scaled logits
    ("GPT2", True),  # learned positions, convolutions for linear maps
    ("Phi", False),  # a head with a bias
    ("Qwen3Moe", False),  # routed experts
    ("Mamba", True),  # a state in place of attention
]


@pytest.fixture(scope="module", params=GENERIC, ids=lambda param: f"{param[0]}-{'tied' if param[1] else 'untied'}")
def generic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    family, tied = request.param
    return write_model(tmp_path_factory.mktemp("models") / family, family, tied=tied)


@pytest.fixture(scope="module")
def qwen3_5(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return write_model(tmp_path_factory.mktemp("models") / "qwen3_5", "Qwen3_5", tied=True)


@pytest.fixture(scope="module")
def generic_base(generic: TinyModel) -> GenericBase:
    base = _base(generic)
    assert isinstance(base, GenericBase)
    return base


def _base(model: TinyModel) -> Base:
    return model.backend()._bases.get(model.name)


def _logits(base: Base, states: torch.Tensor) -> torch.Tensor:
    rows = states.flatten(0, 1)
    return base.logits(rows, [Span(None, len(rows))]).view(*states.shape[:2], -1)


@pytest.mark.parametrize(
    ("family", "own"),
    [
        ("Llama", {}),
        ("Llama", {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1, "head_dim": 12}),
        ("Llama", {"hidden_act": "gelu", "rms_norm_eps": 0.1}),
        ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0}}),
        ("Qwen3", {"attention_bias": True, "num_key_value_heads": 4}),
        ("Qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
    ],
)
def test_a_family_in_its_varieties(family: str, own: dict[str, Any], tmp_path: Path) -> None:
    model = write_model(tmp_path, family, tied=False, **own)
    backend = model.backend()
    tiny.create(backend, model)
    base = backend._bases.get(model.name)
    assert isinstance(base, GenericBase if "sliding_window" in own else LayeredBase)
    with torch.no_grad():
        _assert_logits(model, base)
    data = [tiny.cross_entropy_datum(n, seed=n) for n in (40, 7)]
    expected = reference.evaluate(model, backend, data, reference.cross_entropy)
    tiny.train(backend, ForwardBackward("m", data, "cross_entropy"))
    for name, part in expected.gradient.items():
        error = float((tiny.gradient(backend)[name].double() - part).abs().max())
        assert error <= 1e-4 * float(part.abs().max()), name


@torch.no_grad()
def test_logits_of_a_generic_base_are_those_of_the_library(generic: TinyModel, generic_base: GenericBase) -> None:
    _assert_logits(generic, generic_base)


def _assert_logits(model: TinyModel, base: Base) -> None:
    tokens = torch.tensor(np.stack([tiny.tokens(70, seed=s) for s in range(3)]))
    expected = model.network(tokens, use_cache=False).logits
    found = _logits(base, base.hidden(tokens, [Span(None, 3)]))
    torch.testing.assert_close(found, expected, atol=2e-5 * float(expected.abs().max()), rtol=0)


def test_loss_and_gradient_of_a_generic_base_match_autograd(generic: TinyModel) -> None:
    backend = generic.backend()
    tiny.create(backend, generic)
    data = [tiny.importance_sampling_datum(n, seed=n) for n in (5, 66, 9)]
    expected = reference.evaluate(generic, backend, data, reference.importance_sampling)
    result = tiny.train(backend, ForwardBackward("m", data, "importance_sampling"))
    assert result.metrics["loss:sum"] == pytest.approx(expected.loss, rel=1e-5, abs=1e-4)
    for output, logprobs in zip(result.outputs, expected.logprobs, strict=True):
        np.testing.assert_allclose(output["logprobs"], logprobs, atol=2e-5)
    found = tiny.gradient(backend)
    assert found.keys() == expected.gradient.keys()
    for name, part in expected.gradient.items():
        assert float((found[name].double() - part).abs().max()) <= 1e-4 * float(part.abs().max()), name


@torch.no_grad()
def test_a_cache_continues_rows_that_were_selected(generic: TinyModel, generic_base: GenericBase) -> None:
    base = generic_base
    assert base.caches == (generic.name != "tiny/mamba-tied"), "the fallback is for those that need it"
    tokens = torch.tensor(np.stack([tiny.tokens(40, seed=s) for s in range(3)]))
    expected = generic.network(tokens, use_cache=False).logits
    cache = GenericCache(base)
    start = _logits(base, cache.prefill(tokens[:, :25], [Span(None, 3)]))
    torch.testing.assert_close(start, expected[:, :25], atol=1e-4, rtol=0)
    rows = torch.tensor([2, 0, 2, 2])
    cache.select(rows)
    for i in range(25, 40):
        if i == 33:
            cache.select(torch.tensor([1, 3]))
            rows = rows[[1, 3]]
        found = _logits(base, cache.step(tokens[rows, i : i + 1], [Span(None, len(rows))]))
        torch.testing.assert_close(found[:, 0], expected[rows, i], atol=1e-4, rtol=0)
    assert cache.length == 40


def test_adapters_sit_on_attention_and_mlp_and_head(generic: TinyModel, generic_base: GenericBase) -> None:
    places = {flag: set[str]() for flag in ("train_attn", "train_mlp", "train_unembed")}
    for place in generic_base.places:
        places[place.flag].add(place.path.split(".", maxsplit=3)[-1] if place.path != HEAD else HEAD)
    assert places["train_unembed"] == {HEAD}
    expected = PLACES[generic.name.split("-")[0]]
    assert (places["train_attn"], places["train_mlp"]) == expected


_QKVO = {f"self_attn.{name}_proj" for name in "qkvo"}
_MLP = {f"mlp.{name}_proj" for name in ("gate", "up", "down")}
PLACES: dict[str, tuple[set[str], set[str]]] = {
    "tiny/qwen3_5": (
        _QKVO | {f"linear_attn.{name}" for name in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")},
        _MLP,
    ),
    "tiny/mistral": (_QKVO, _MLP),
    "tiny/gemma2": (_QKVO, _MLP),
    "tiny/granite": (_QKVO, _MLP),
    "tiny/cohere": (_QKVO, _MLP),
    "tiny/gpt2": ({"attn.c_attn", "attn.c_proj"}, {"mlp.c_fc", "mlp.c_proj"}),
    "tiny/phi": ({f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "dense")}, {"mlp.fc1", "mlp.fc2"}),
    "tiny/qwen3moe": (_QKVO, set()),
    "tiny/mamba": ({f"mixer.{name}_proj" for name in ("in", "out", "x", "dt")}, set()),
}


def test_nothing_to_train(tmp_path: Path) -> None:
    """Routed experts are left alone, so that a model of nothing else has no MLP to train."""
    model = write_model(tmp_path, "Qwen3Moe", tied=False)
    backend = model.backend()
    with pytest.raises(UserError, match="has nothing that train_mlp covers; set one of train_attn, train_unembed to"):
        backend.create_model(
            "m", model.name, LoraShape(train_attn=False, train_unembed=False, seed=1), OptimizerConfig()
        )


def test_an_architecture_without_places_is_refused(qwen3_5: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spindle.backends.placing.flag_of", lambda path: None)
    with pytest.raises(UserError, match="has no linear map inside attention or an MLP for an adapter to sit on"):
        _base(qwen3_5)


def test_state_does_not_leak_between_sequences(qwen3_5: TinyModel) -> None:
    """A sequence's logprobs do not depend on its neighbours in a batch, on padding, or on what was computed before."""
    backend = qwen3_5.backend()
    tiny.create(backend, qwen3_5)
    data = [tiny.cross_entropy_datum(n, seed=n) for n in (30, 80, 3, 66)]
    together = tiny.train(backend, ForwardBackward("m", data, "cross_entropy", forward_only=True)).outputs
    for datum, output in zip(data, together, strict=True):
        (alone,) = tiny.train(backend, ForwardBackward("m", [datum], "cross_entropy", forward_only=True)).outputs
        np.testing.assert_allclose(output["logprobs"], alone["logprobs"], atol=1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning:peft", "ignore:Model has `tie_word_embeddings=True`")
@pytest.mark.parametrize("family", ["Qwen3_5", "GPT2"])
def test_peft_loads_what_was_saved(family: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", family, tied=False)
    backend = model.backend()
    tiny.create(backend, model, lora=LoraShape(rank=4, seed=7, train_unembed=False))
    (tmp_path / "adapter").mkdir()
    backend.save_adapter("m", tmp_path / "adapter")
    datum = tiny.cross_entropy_datum(30)
    result = tiny.train(backend, ForwardBackward("m", [datum], "cross_entropy", forward_only=True))
    wrapped: Any = peft.PeftModel.from_pretrained(model.network, tmp_path / "adapter")
    logprobs = torch.log_softmax(wrapped(torch.tensor(datum.tokens)[None]).logits[0], -1)
    expected = logprobs[range(30), datum.loss_inputs["target_tokens"]].detach()
    np.testing.assert_allclose(result.outputs[0]["logprobs"], expected, atol=1e-5)


def test_the_text_part_of_a_multimodal_checkpoint_is_served(qwen3_5: TinyModel, tmp_path: Path) -> None:
    """As Qwen3.5 is published: the configuration of the text inside one of the whole, its weights beside a tower's."""
    text = json.loads((qwen3_5.path / "config.json").read_text(encoding="utf-8"))
    whole = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "tie_word_embeddings": True,
        "text_config": {key: value for key, value in text.items() if key != "architectures"},
        "vision_config": {"model_type": "qwen3_5"},
    }
    (tmp_path / "config.json").write_text(json.dumps(whole), encoding="utf-8")
    weights = load_file(qwen3_5.path / "model.safetensors")
    assert all(name.startswith("model.language_model.") for name in weights)
    save_file({**weights, "model.visual.pos_embed.weight": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    model = TinyModel("tiny/qwen3_5-whole", tmp_path, qwen3_5.network, tied=True)
    assert model.info == BaseModel("tiny/qwen3_5-whole", tmp_path, "Qwen3_5ForCausalLM", CONTEXT, VOCABULARY)
    base = _base(model)
    assert base.end_tokens == {2}, "as the inner configuration says"
    with torch.no_grad():
        _assert_logits(model, base)


def test_a_model_that_looks_ahead_is_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path, "Bert", tied=True)
    with pytest.raises(
        UserError, match=r"of architecture BertLMHeadModel cannot be served: the logits of a token depend"
    ):
        _base(model)


def test_logits_that_the_library_makes_otherwise_are_refused(
    qwen3_5: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.backends.generic._logit_scale", lambda config: 1.01)
    with pytest.raises(UserError, match="its logits differ from the library's own"):
        _base(qwen3_5)


def test_weights_that_are_not_all_there_are_refused(qwen3_5: TinyModel, llama: TinyModel, tmp_path: Path) -> None:
    for model in (qwen3_5, llama):
        folder = tmp_path / model.path.name
        folder.mkdir()
        (folder / "config.json").write_bytes((model.path / "config.json").read_bytes())
        weights = load_file(model.path / "model.safetensors")
        del weights[next(name for name in weights if name.endswith("layers.1.mlp.up_proj.weight"))]
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(UserError, match=r"lack 1 tensors .* such as model.layers.1.mlp.up_proj.weight"):
            _base(TinyModel(model.name, folder, model.network, model.tied))


def test_bfloat16_weights_compute_in_float32_on_a_cpu(llama: TinyModel, tmp_path: Path) -> None:
    rounded = {name: weight.to(torch.bfloat16) for name, weight in llama.network.state_dict().items()}
    llama.network.save_pretrained(tmp_path, state_dict=dict(rounded), max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    network = type(llama.network)(llama.network.config).eval()
    network.load_state_dict(rounded)
    half = TinyModel("tiny/llama-half", tmp_path, network, tied=True)
    with torch.no_grad():
        _assert_logits(half, _base(half))


@pytest.mark.parametrize("family", ["Llama", "Qwen3_5"])
def test_bfloat16_bases_train_and_sample_with_float32_adapters(family: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", family, tied=True)
    backend = TorchBackend([model.info], torch.device("cpu"), torch.bfloat16)
    tiny.create(backend, model)
    datum = tiny.cross_entropy_datum(30)
    result = tiny.train(backend, ForwardBackward("m", [datum], "cross_entropy"))
    reference_backend = model.backend()
    tiny.create(reference_backend, model)
    exact = tiny.train(reference_backend, ForwardBackward("m", [datum], "cross_entropy"))
    assert np.abs(result.outputs[0]["logprobs"] - exact.outputs[0]["logprobs"]).mean() < 0.1
    assert {part.dtype for part in tiny.gradient(backend).values()} == {torch.float32}
    (tmp_path / "adapter").mkdir()
    backend.save_adapter("m", tmp_path / "adapter")
    params = SamplingParams(10, seed=1, stop_tokens=())
    sampled = tiny.sample(backend, model, datum.tokens, params, adapter=tmp_path / "adapter")
    assert np.isfinite(sampled.sequences[0].logprobs).all()


@pytest.mark.parametrize(("family", "tied"), [("Llama", True), ("Qwen3_5", False), ("Gemma2", True), ("GPT2", True)])
def test_memory_is_told_without_loading(family: str, tied: bool, tmp_path: Path) -> None:
    model = write_model(tmp_path, family, tied=tied)
    told = estimate(model.info, rank=4, batch_tokens=100, sequences=3, dtype="float32")
    assert told.weights == sum(p.nbytes for p in model.network.parameters())
    backend = model.backend()
    backend.create_model("m", model.name, tiny.LORA, OptimizerConfig())
    adapter = sum(p.nbytes for p in backend._models["m"].adapter.parameters().values())
    assert (told.adapter, told.optimizer) == (adapter, 3 * adapter)
    assert told.total == sum(vars(told).values())
    base = _base(model)
    if family == "Llama":
        assert told.cache == 3 * CONTEXT * base.cache_bytes_per_token
    half = estimate(inspect(model.name, model.path), rank=8, batch_tokens=100, sequences=3, dtype="bfloat16")
    assert (2 * half.weights, half.adapter) == (told.weights, 2 * told.adapter)
