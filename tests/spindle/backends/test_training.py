"""Losses, gradients and request handling against float64 references and PEFT."""

from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch

from spindle.backends import head, learner
from spindle.backends.contract import (
    Datum,
    ForwardBackward,
    LoraShape,
    OptimizerConfig,
    OptimizerStep,
    SampleRequest,
    SamplingParams,
    UserError,
)
from spindle.backends.lora import HEAD
from spindle.backends.torch_backend import TorchBackend
from tests.spindle.backends import reference, tiny
from tests.spindle.backends.tiny import CONTEXT, VOCABULARY, TinyModel


def test_a_new_adapter_changes_nothing(model: TinyModel) -> None:
    backend = model.backend()
    backend.create_model("m", model.name, tiny.LORA, OptimizerConfig())
    data = [tiny.cross_entropy_datum(n, seed=n) for n in (5, 17, 9)]
    result = tiny.train(backend, ForwardBackward("m", data, "cross_entropy", forward_only=True))
    for datum, output in zip(data, result.outputs, strict=True):
        logits = model.network(torch.tensor(datum.tokens)[None]).logits[0]
        expected = torch.log_softmax(logits, -1)[range(len(datum.tokens)), datum.loss_inputs["target_tokens"]]
        np.testing.assert_allclose(output["logprobs"], expected.detach(), atol=1e-5)


@pytest.mark.parametrize("loss", ["cross_entropy", "importance_sampling"])
def test_loss_and_gradient_match_float64(model: TinyModel, loss: str) -> None:
    backend = model.backend()
    tiny.create(backend, model)
    make = tiny.cross_entropy_datum if loss == "cross_entropy" else tiny.importance_sampling_datum
    data = [make(n, seed=n) for n in (5, 40, 17, 1)]
    expected = reference.evaluate(model, backend, data, getattr(reference, loss))
    result = tiny.train(backend, ForwardBackward("m", data, loss))
    assert result.metrics["loss:sum"] == pytest.approx(expected.loss, rel=1e-5, abs=1e-4)
    for output, logprobs in zip(result.outputs, expected.logprobs, strict=True):
        assert output["logprobs"].dtype == np.float32
        np.testing.assert_allclose(output["logprobs"], logprobs, atol=2e-5)
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)


def test_several_targets_per_token(llama: TinyModel) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    draw = np.random.default_rng(0)
    wide = Datum(
        tiny.tokens(9),
        {"target_tokens": draw.integers(0, VOCABULARY, (9, 3)), "weights": draw.normal(size=(9, 3)).astype(np.float32)},
    )
    wide.loss_inputs["target_tokens"][4] = 50  # the same target twice must count twice
    data = [tiny.cross_entropy_datum(6), wide, tiny.cross_entropy_datum(11)]
    expected = reference.evaluate(llama, backend, data, reference.cross_entropy)
    result = tiny.train(backend, ForwardBackward("m", data, "cross_entropy"))
    assert [output["logprobs"].shape for output in result.outputs] == [(6,), (9, 3), (11,)]
    np.testing.assert_allclose(result.outputs[1]["logprobs"], expected.logprobs[1], atol=1e-5)
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)


def test_micro_batches_and_blocks_of_logits_add_up(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [tiny.importance_sampling_datum(n, seed=n) for n in (30, 3, 12, 50, 21)]
    backend = llama.backend()
    tiny.create(backend, llama)
    expected = reference.evaluate(llama, backend, data, reference.importance_sampling)
    monkeypatch.setattr(learner, "TOKENS_AT_ONCE", 40)
    monkeypatch.setattr("spindle.backends.base.Base.logit_rows", 7)
    result = tiny.train(backend, ForwardBackward("m", data, "importance_sampling"))
    for output, logprobs in zip(result.outputs, expected.logprobs, strict=True):
        np.testing.assert_allclose(output["logprobs"], logprobs, atol=1e-5)
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)


@pytest.mark.filterwarnings("ignore::UserWarning:peft", "ignore:Model has `tie_word_embeddings=True`")
def test_forward_and_gradient_match_peft(model: TinyModel) -> None:
    backend = model.backend()
    tiny.create(backend, model)
    adapter = backend._models["m"].adapter
    network = type(model.network)(model.network.config).eval()
    network.load_state_dict(model.network.state_dict())
    names = sorted({"lm_head", *(path.rpartition(".")[2] for path in adapter.pairs if path != HEAD)})
    wrapped: Any = peft.get_peft_model(network, peft.LoraConfig(r=4, lora_alpha=32, target_modules=names))
    leaves = {}
    for path, pair in adapter.pairs.items():
        module = wrapped.get_submodule(f"base_model.model.{'lm_head' if path == HEAD else path}")
        for letter, tensor in (("A", pair.a), ("B", pair.b)):
            leaf = getattr(module, f"lora_{letter}")["default"].weight
            leaf.data.copy_(tensor.detach())
            leaves[f"{path}.lora_{letter}.weight"] = leaf
    datum = tiny.cross_entropy_datum(23)
    logprobs = torch.log_softmax(wrapped(torch.tensor(datum.tokens)[None]).logits[0], -1)
    chosen = logprobs[range(23), datum.loss_inputs["target_tokens"]]
    (-(torch.tensor(datum.loss_inputs["weights"]) * chosen).sum()).backward()  # type: ignore[no-untyped-call]
    result = tiny.train(backend, ForwardBackward("m", [datum], "cross_entropy"))
    np.testing.assert_allclose(result.outputs[0]["logprobs"], chosen.detach(), atol=1e-5)
    reference.assert_gradients(tiny.gradient(backend), {name: leaf.grad for name, leaf in leaves.items()})


@pytest.mark.parametrize("part", ["train_attn", "train_mlp", "train_unembed"])
def test_only_the_asked_parts_are_trained(llama: TinyModel, part: str) -> None:
    backend = llama.backend()
    flags = {name: name == part for name in ("train_attn", "train_mlp", "train_unembed")}
    tiny.create(backend, llama, lora=LoraShape(rank=2, seed=1, **flags))
    data = [tiny.cross_entropy_datum(12)]
    expected = reference.evaluate(llama, backend, data, reference.cross_entropy)
    tiny.train(backend, ForwardBackward("m", data, "cross_entropy"))
    suffixes = {"train_attn": "_proj", "train_mlp": "_proj", "train_unembed": "unembed_tokens"}
    assert all(path.endswith(suffixes[part]) for path in backend._models["m"].adapter.pairs)
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)


def test_gradients_add_up_over_requests_until_the_optimizer_step(llama: TinyModel) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    data = [tiny.cross_entropy_datum(8, seed=s) for s in range(3)]
    expected = reference.evaluate(llama, backend, data, reference.cross_entropy)
    backend.forward_backward([ForwardBackward("m", [datum], "cross_entropy") for datum in data])
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)
    backend.optim_step("m", OptimizerStep())
    assert tiny.gradient(backend) == {}


def test_forward_only_leaves_the_gradient_alone(llama: TinyModel) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    data = [tiny.cross_entropy_datum(8)]
    tiny.train(backend, ForwardBackward("m", data, "cross_entropy"))
    before = {name: part.clone() for name, part in tiny.gradient(backend).items()}
    forward = tiny.train(backend, ForwardBackward("m", data, "cross_entropy", forward_only=True))
    backward = tiny.train(backend, ForwardBackward("m", data, "cross_entropy"))
    assert forward.metrics == backward.metrics
    np.testing.assert_array_equal(forward.outputs[0]["logprobs"], backward.outputs[0]["logprobs"])
    for name, part in tiny.gradient(backend).items():
        torch.testing.assert_close(part, 2 * before[name])


def test_models_on_one_base_do_not_disturb_one_another(llama: TinyModel) -> None:
    def run(*model_ids: str) -> dict[str, torch.Tensor]:
        backend = llama.backend()
        for model_id in model_ids:
            tiny.create(backend, llama, model_id, LoraShape(rank=4, seed=len(model_id)))
        for step in range(2):
            backend.forward_backward(
                [ForwardBackward(m, [tiny.cross_entropy_datum(14, seed=step)], "cross_entropy") for m in model_ids]
            )
            for model_id in model_ids:
                backend.optim_step(model_id, OptimizerStep({"learning_rate": 1e-2 * len(model_id)}))
        return backend._models["aa"].adapter.parameters()

    alone, together = run("aa"), run("b", "aa", "ccc")
    assert all(torch.equal(alone[name], together[name]) for name in alone)


def test_the_same_seed_gives_the_same_bytes(llama: TinyModel) -> None:
    def created(seed: int | None) -> TorchBackend:
        backend = llama.backend()
        backend.create_model("m", llama.name, LoraShape(rank=4, seed=seed), OptimizerConfig())
        return backend

    first = created(None)
    seed = first.info("m").lora.seed
    assert seed is not None
    parameters, same, other = (
        backend._models["m"].adapter.parameters() for backend in (first, created(seed), created(seed + 1))
    )
    assert all(torch.equal(parameters[name], same[name]) for name in parameters)
    assert not any(torch.equal(parameters[name], other[name]) for name in parameters if ".lora_A." in name)
    a = parameters["model.layers.0.mlp.down_proj.lora_A.weight"]
    assert float(a.detach().abs().max()) == pytest.approx(a.shape[1] ** -0.5, rel=0.1), (
        "uniform in ±1/sqrt(in), as in PEFT"
    )


def _bad(**changes: Any) -> Datum:
    datum = tiny.importance_sampling_datum(6)
    return Datum(changes.pop("tokens", datum.tokens), {**datum.loss_inputs, **changes})


@pytest.mark.parametrize(
    ("request_parts", "sentence"),
    [
        ({"loss_fn": "ppo2"}, r"loss_fn 'ppo2' is not offered here; choose one of cross_entropy, importance_sampling"),
        ({"config": {"clip": 0.2}}, r"has no setting 'clip' in loss_fn_config; it has none"),
        ({"data": []}, r"data is empty"),
        (
            {"data": [_bad(tokens=tiny.tokens(CONTEXT + 1))]},
            rf"{CONTEXT + 1} tokens, more than .* context of {CONTEXT}",
        ),
        (
            {"data": [_bad(tokens=np.array([], dtype=np.int64))]},
            r"data\[0\].model_input must be a list of at least one",
        ),
        (
            {"data": [_bad(tokens=np.array([1, 2, 3, 4, 5, VOCABULARY]))]},
            rf"token id {VOCABULARY}.*0 to {VOCABULARY - 1}",
        ),
        ({"data": [_bad(), _bad(target_tokens=np.array([1, 2, 3, 4, 5, -1]))]}, r"data\[1\].*target_tokens.*-1"),
        ({"data": [_bad(target_tokens=np.arange(5))]}, r"target_tokens must have the shape \[6\].*found \[5\]"),
        ({"data": [_bad(target_tokens=np.ones((6, 2), np.int64))]}, r"shape \[6\].*found \[6, 2\]"),
        ({"data": [_bad(target_tokens=np.ones(6))]}, r"whole numbers, found float64"),
        (
            {"data": [_bad(advantages=np.zeros(5))]},
            r"advantages must have the shape of target_tokens, \[6\], found \[5\]",
        ),
        ({"data": [_bad(advantages=np.array([0, 0, np.nan, 0, 0, 0]))]}, r"advantages\[2\] is nan; send finite"),
        ({"data": [tiny.cross_entropy_datum(6)]}, r"loss_fn_inputs lacks logprobs, which importance_sampling needs"),
        ({"data": [_bad(logprobs=np.full(6, -1e30, np.float32))]}, r"gradient is not finite, so it was left out"),
        ({"model_id": "gone"}, r"model 'gone' is not loaded"),
    ],
)
def test_a_failed_request_contributes_no_gradient(
    llama: TinyModel, request_parts: dict[str, Any], sentence: str
) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    good = ForwardBackward("m", [tiny.importance_sampling_datum(9)], "importance_sampling")
    tiny.train(backend, good)
    once = {name: part.clone() for name, part in tiny.gradient(backend).items()}
    parts = {"model_id": "m", "data": [_bad()], "loss_fn": "importance_sampling", **request_parts}
    failed, after = backend.forward_backward([ForwardBackward(**parts), good])
    assert isinstance(failed, UserError)
    assert not isinstance(after, UserError)
    with pytest.raises(UserError, match=sentence):
        raise failed
    for name, part in tiny.gradient(backend).items():
        torch.testing.assert_close(part, 2 * once[name])


@pytest.mark.parametrize(
    ("lora", "optimizer", "base", "sentence"),
    [
        (LoraShape(rank=0), OptimizerConfig(), None, "rank must be from 1 to 256, found 0"),
        (LoraShape(rank=10**6), OptimizerConfig(), None, "rank must be from 1 to 256, found 1000000"),
        (LoraShape(seed=-1), OptimizerConfig(), None, "seed must be from 0 to .*, found -1"),
        (LoraShape(seed=2**70), OptimizerConfig(), None, "seed must be from 0 to .*, found 1180591620717411303424"),
        (LoraShape(train_attn=False, train_mlp=False, train_unembed=False), OptimizerConfig(), None, "all false"),
        (LoraShape(), OptimizerConfig(type="dimuon"), None, "'dimuon' is not offered here .its update rule is not pub"),
        (LoraShape(), OptimizerConfig(fixed={"momentum": 0.9}), None, "no hyperparameter 'momentum'"),
        (LoraShape(), OptimizerConfig(), "org/none", "base model 'org/none' is not served here; choose tiny/llama"),
    ],
)
def test_a_model_that_cannot_be_created(
    llama: TinyModel, lora: LoraShape, optimizer: OptimizerConfig, base: str | None, sentence: str
) -> None:
    backend = llama.backend()
    with pytest.raises(UserError, match=sentence):
        backend.create_model("m", base or llama.name, lora, optimizer)
    with pytest.raises(UserError, match="not loaded"):
        backend.info("m")


def test_a_crash_in_the_middle_leaves_nothing_behind(llama: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    data = [tiny.cross_entropy_datum(20, seed=s) for s in range(2)]
    expected = reference.evaluate(llama, backend, data, reference.cross_entropy)
    learn = head.learn
    calls: list[int] = []

    def out_of_memory_at_the_second_batch(*args: Any, **options: Any) -> Any:
        calls.append(len(calls))
        if len(calls) == 2:
            raise MemoryError
        return learn(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(head, "learn", out_of_memory_at_the_second_batch)
        patch.setattr(learner, "TOKENS_AT_ONCE", 20)
        with pytest.raises(MemoryError):
            tiny.train(backend, ForwardBackward("m", data, "cross_entropy"))
    tiny.train(backend, ForwardBackward("m", data, "cross_entropy"))
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)


def test_weights_that_cannot_be_read_are_said_to_be_so(tmp_path: Path) -> None:
    broken = tiny.write_model(tmp_path / "broken", "Llama", tied=True)
    for file in broken.path.glob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:100])
    backend = broken.backend()
    with pytest.raises(UserError, match=r"could not be loaded from .*broken .*; copy its files again"):
        backend.create_model("m", broken.name, LoraShape(), OptimizerConfig())
    [answer] = backend.sample([SampleRequest(broken.name, None, np.array([1]), 1, SamplingParams(1))])
    assert isinstance(answer, UserError)
