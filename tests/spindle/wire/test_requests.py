from typing import Any

import pytest

from spindle.backends.contract import OptimizerConfig, OptimizerStep, UserError
from spindle.wire.bodies import parse
from spindle.wire.requests import UNSUPPORTED, CreateModel, Optimizer, OptimStep, Sample, Sampling

SAMPLE: dict[str, Any] = {
    "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2]}, {"tokens": [3]}]},
    "sampling_params": {"max_tokens": 4},
}


@pytest.mark.parametrize(
    ("stop", "tokens", "strings"),
    [(None, None, ()), ([], (), ()), ("\n", None, ("\n",)), (["a", "b"], None, ("a", "b")), ([2, 5], (2, 5), ())],
)
def test_stops(stop: object, tokens: object, strings: object) -> None:
    params = parse(Sampling, {"stop": stop}).to_contract()
    assert params.stop_tokens == tokens
    assert params.stop_strings == strings


def test_a_prompt_of_several_chunks_is_one() -> None:
    prompt = parse(Sample, SAMPLE).to_contract()
    assert prompt.tokens.tolist() == [1, 2, 3]
    assert prompt.params.max_tokens == 4


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_built_yet_is_refused_by_name(name: str) -> None:
    value: object = {"data": [1]} if name == "target_prompt_logprobs" else 1
    with pytest.raises(UserError, match=f"does not support {name} yet"):
        parse(Sample, SAMPLE | {name: value}).to_contract()
    parse(Sample, SAMPLE | {name: None if name.endswith(("_n", "info")) or "target" in name else 0}).to_contract()


def test_images_are_refused() -> None:
    with pytest.raises(UserError, match="chunk of kind image"):
        parse(Sample, SAMPLE | {"prompt": {"chunks": [{"type": "image", "data": "aGk="}]}}).to_contract()


def test_an_optimizer_may_fix_hyperparameters_and_come_back_as_it_was_shown() -> None:
    shown = {"type": "adamw", "learning_rate": 1e-3, "step": 4, "init_seed": 3, "lora": {"rank": 4}}
    assert parse(Optimizer, shown).to_contract() == OptimizerConfig("adamw", {"learning_rate": 1e-3})
    muon = {"type": "muon", "scale": "moonlight", "nesterov": True, "plugin_sha256": "ab"}
    fixed: dict[str, float | str] = {"scale": "moonlight", "nesterov": 1.0}
    assert parse(Optimizer, muon).to_contract() == OptimizerConfig("muon", fixed, "ab")
    with pytest.raises(UserError, match=r"optimizer_config has betas=\[0.9, 0.95\]; a hyperparameter is a number or"):
        parse(Optimizer, {"type": "adamw", "betas": [0.9, 0.95]}).to_contract()


def test_a_step_says_for_which_family_it_is() -> None:
    assert parse(OptimStep, {"adam_params": {"eps": 0.5}}).to_contract() == OptimizerStep({"eps": 0.5})
    assert parse(OptimStep, {}).to_contract() == OptimizerStep()
    other = {"optimizer_params": {"type": "muon", "momentum": 0.5}}
    assert parse(OptimStep, other).to_contract() == OptimizerStep({"momentum": 0.5}, "muon")
    with pytest.raises(UserError, match=r"optimizer_params\.type must name an optimizer family, found None"):
        parse(OptimStep, {"optimizer_params": {"momentum": 0.5}}).to_contract()


def test_what_does_not_fit_is_named_with_its_place() -> None:
    with pytest.raises(UserError, match=r"lora_config\.rank: .*valid integer.*found 'many'"):
        parse(CreateModel, {"session_id": "s", "model_seq_id": 0, "base_model": "b", "lora_config": {"rank": "many"}})
    with pytest.raises(UserError, match=r"base_model: Field required\."):
        parse(CreateModel, {"session_id": "s", "model_seq_id": 0})
