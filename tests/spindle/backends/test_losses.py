"""Each loss against its formula written out in float64: value and gradient with respect to the adapter."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from spindle.backends.contract import Array, Datum, ForwardBackward, UserError
from tests.spindle.backends import reference, tiny
from tests.spindle.backends.tiny import TinyModel

Inputs = dict[str, Tensor]


def _ratio(logprobs: Tensor, inputs: Inputs) -> Tensor:
    return torch.exp(logprobs - inputs["logprobs"])


def _importance_sampling(logprobs: Tensor, inputs: Inputs) -> Tensor:
    return -(_ratio(logprobs, inputs) * inputs["advantages"]).sum()


def _clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """The PPO form, case by case instead of by min and clamp."""
    above, below = ratio.detach() > high, ratio.detach() < low
    terms = ratio * advantages
    terms = torch.where(above & (advantages > 0), high * advantages, terms)
    return -torch.where(below & (advantages < 0), low * advantages, terms).sum()


def _ppo(logprobs: Tensor, inputs: Inputs, low: float = 0.8, high: float = 1.2) -> Tensor:
    return _clipped(_ratio(logprobs, inputs), inputs["advantages"], low, high)


def _cispo(logprobs: Tensor, inputs: Inputs, low: float = 0.0, high: float = 4.0) -> Tensor:
    ratio = _ratio(logprobs, inputs).detach().numpy()
    return -(torch.tensor(np.clip(ratio, low, high)) * inputs["advantages"] * logprobs).sum()


def _dro(logprobs: Tensor, inputs: Inputs, beta: float = 0.05) -> Tensor:
    return -(logprobs * inputs["advantages"] - beta / 2 * (logprobs - inputs["logprobs"]).square()).sum()


def _gspo(logprobs: Tensor, inputs: Inputs, low: float = 1 - 3e-4, high: float = 1 + 4e-4) -> Tensor:
    mask = inputs["sequence_ratio_mask"] > 0
    sequence = float(torch.exp((logprobs.detach() - inputs["logprobs"])[mask].mean()))
    return _clipped(sequence * torch.exp(logprobs - logprobs.detach()), inputs["advantages"], low, high)


REFERENCES: dict[str, Any] = {
    "importance_sampling": _importance_sampling,
    "ppo": _ppo,
    "cispo": _cispo,
    "dro": _dro,
    "gspo": _gspo,
}


def _data(model: TinyModel, spread: float) -> list[Datum]:
    """Data whose ratios scatter around 1 by `spread` in log, with advantages of both signs and prompts of zero."""
    backend = model.backend()
    tiny.create(backend, model)
    data = [tiny.importance_sampling_datum(n, seed=n) for n in (24, 7, 33)]
    dummy = [Datum(d.tokens, {**d.loss_inputs, "weights": np.zeros(len(d.tokens), np.float32)}) for d in data]
    outputs = tiny.train(backend, ForwardBackward("m", dummy, "cross_entropy", forward_only=True)).outputs
    draw = np.random.default_rng(5)
    for datum, output in zip(data, outputs, strict=True):
        inputs: dict[str, Array] = datum.loss_inputs  # type: ignore[assignment]
        noise = draw.normal(scale=spread, size=len(datum.tokens)) + draw.choice([-1e-3, 1e-3])
        inputs["logprobs"] = (output["logprobs"] + noise).astype(np.float32)
        inputs["sequence_ratio_mask"] = (inputs["advantages"] != 0).astype(np.float32)
    return data


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("importance_sampling", {}),
        ("ppo", {}),
        ("ppo", {"clip_low_threshold": 0.95, "clip_high_threshold": 1.02}),
        ("cispo", {}),
        ("cispo", {"clip_high_threshold": 1.1}),
        ("dro", {}),
        ("dro", {"beta": 2.0}),
        ("gspo", {}),
        ("gspo", {"clip_low_threshold": 0.5, "clip_high_threshold": 1.5}),
    ],
)
@pytest.mark.parametrize("spread", [0.01, 0.4])
def test_value_and_gradient_match_float64(llama: TinyModel, name: str, config: dict[str, float], spread: float) -> None:
    data = _data(llama, spread)
    backend = llama.backend()
    tiny.create(backend, llama)
    names = {"clip_low_threshold": "low", "clip_high_threshold": "high", "beta": "beta"}
    options = {names[key]: value for key, value in config.items()}
    expected = reference.evaluate(llama, backend, data, lambda lp, inputs: REFERENCES[name](lp, inputs, **options))
    result = tiny.train(backend, ForwardBackward("m", data, name, config))
    assert result.metrics["loss:sum"] == pytest.approx(expected.loss, rel=1e-5, abs=1e-4)
    reference.assert_gradients(tiny.gradient(backend), expected.gradient)


def test_the_clipping_tests_clip_on_both_sides(llama: TinyModel) -> None:
    data = _data(llama, 0.4)
    backend = llama.backend()
    tiny.create(backend, llama)
    metrics = tiny.train(backend, ForwardBackward("m", data, "ppo", forward_only=True)).metrics
    outputs = tiny.train(backend, ForwardBackward("m", data, "ppo", forward_only=True)).outputs
    low = high = trained = 0
    log_ratio = 0.0
    for datum, output in zip(data, outputs, strict=True):
        advantages = datum.loss_inputs["advantages"]
        difference = output["logprobs"] - datum.loss_inputs["logprobs"]
        low += int(((np.exp(difference) < 0.8) & (advantages < 0)).sum())
        high += int(((np.exp(difference) > 1.2) & (advantages > 0)).sum())
        trained += int((advantages != 0).sum())
        log_ratio += float(difference[advantages != 0].sum())
    assert low > 2
    assert high > 2
    assert metrics["clipped_tokens:sum"] == low + high
    assert metrics["trained_tokens:sum"] == trained
    assert metrics["log_ratio:sum"] == pytest.approx(log_ratio, rel=1e-5)
    outside = tiny.train(backend, ForwardBackward("m", data, "cispo", {"clip_high_threshold": 1.0})).metrics
    sides = [
        (np.exp(o["logprobs"] - d.loss_inputs["logprobs"]) > 1)[d.loss_inputs["advantages"] != 0].sum()
        for d, o in zip(data, outputs, strict=True)
    ]
    assert outside["clipped_tokens:sum"] == sum(sides)


def test_the_sequence_ratio_is_a_mean_over_the_mask_alone(llama: TinyModel) -> None:
    """Logprobs that the mask leaves out do not count, and an empty mask leaves the ratio at 1."""
    [datum, *_] = _data(llama, 0.1)
    backend = llama.backend()
    tiny.create(backend, llama)
    wide = {"clip_low_threshold": 0.0, "clip_high_threshold": 100.0}

    def loss(**changes: Array) -> float:
        changed = Datum(datum.tokens, {**datum.loss_inputs, **changes})
        return tiny.train(backend, ForwardBackward("m", [changed], "gspo", wide, forward_only=True)).metrics["loss:sum"]

    outside = datum.loss_inputs["sequence_ratio_mask"] == 0
    elsewhere = np.where(outside, np.float32(-50), datum.loss_inputs["logprobs"])
    assert loss(logprobs=elsewhere) == loss()
    empty = loss(sequence_ratio_mask=np.zeros(len(datum.tokens), np.float32))
    assert empty == pytest.approx(-float(datum.loss_inputs["advantages"].sum()), rel=1e-5)


@pytest.mark.parametrize("name", REFERENCES)
def test_unknown_inputs_and_weights_are_ignored(llama: TinyModel, name: str) -> None:
    data = _data(llama, 0.2)
    more = [
        Datum(d.tokens, {**d.loss_inputs, "weights": np.zeros(len(d.tokens), np.float32), "mask": np.zeros(3)})
        for d in data
    ]
    backend = llama.backend()
    tiny.create(backend, llama)
    plain, with_more = (tiny.train(backend, ForwardBackward("m", d, name, forward_only=True)) for d in (data, more))
    assert plain.metrics == with_more.metrics
    assert plain.metrics["loss:sum"] != 0
    assert all(key.count(":") == 1 for key in plain.metrics)


@pytest.mark.parametrize(
    ("name", "config", "sentence"),
    [
        ("ppo", {"clip": 0.2}, r"no setting 'clip' .* clip_low_threshold \(default 0.8\), clip_high_threshold \(def"),
        (
            "dro",
            {"beta": "much"},
            r"loss_fn_config.beta of 'dro' must be a number within ±1e\+30 \(default 0.05\), found",
        ),
        ("dro", {"beta": float("nan")}, r"beta of 'dro' must be a number within .* found nan"),
        (
            "ppo",
            {"clip_high_threshold": 1e300},
            r"clip_high_threshold of 'ppo' must be a number within .* found 1e\+300",
        ),
        ("ppo", {"clip_low_threshold": 1.5}, r"clip_low_threshold=1.5 above clip_high_threshold=1.2"),
        ("cross_entropy", {"clip": 0.2}, r"'cross_entropy' has no setting 'clip' in loss_fn_config; it has none"),
        ("stable_reinforce", {}, r"'stable_reinforce' is not offered here \(its formula is not published\); choose"),
        ("grpo", {}, r"'grpo' is not offered here; choose one of cross_entropy, importance_sampling, ppo, cispo, dro"),
        ("gspo", {}, r"data\[0\].loss_fn_inputs lacks sequence_ratio_mask, which gspo needs"),
    ],
)
def test_what_is_refused(llama: TinyModel, name: str, config: dict[str, Any], sentence: str) -> None:
    backend = llama.backend()
    tiny.create(backend, llama)
    data = [tiny.importance_sampling_datum(6)] if name != "cross_entropy" else [tiny.cross_entropy_datum(6)]
    with pytest.raises(UserError, match=sentence):
        tiny.train(backend, ForwardBackward("m", data, name, config))
    assert tiny.gradient(backend) == {}


@pytest.mark.parametrize("name", REFERENCES)
def test_several_targets_are_for_cross_entropy_alone(llama: TinyModel, name: str) -> None:
    """Only one token was sampled per position, so only one has a sampler's logprob and an advantage."""
    backend = llama.backend()
    tiny.create(backend, llama)
    datum = tiny.importance_sampling_datum(6)
    inputs = {**datum.loss_inputs, "sequence_ratio_mask": np.ones(6, np.float32)}
    wide = Datum(datum.tokens, {key: np.stack([values, values], axis=1) for key, values in inputs.items()})
    with pytest.raises(UserError, match=r"target_tokens must have the shape \[6\], .* found \[6, 2\]"):
        tiny.train(backend, ForwardBackward("m", [wide], name))
