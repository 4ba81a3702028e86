from typing import Any

import pytest

from spindle.backends.contract import OptimizerConfig, OptimizerStep, SamplingParams, UserError
from spindle.wire.bodies import parse
from spindle.wire.codec import Budget
from spindle.wire.requests import CreateModel, Optimizer, OptimStep, Sample, Sampling

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


@pytest.mark.parametrize("stop", [["x"] * 65, ["x", "y" * 1025], "y" * 1025])
def test_stop_strings_that_would_hold_up_everybody_are_refused(stop: object) -> None:
    with pytest.raises(UserError, match=r"sampling_params\.stop has \d+ strings.* at most 64 of 1024 are taken"):
        parse(Sampling, {"stop": stop}).to_contract()
    assert parse(Sampling, {"stop": ["y" * 1024] * 64}).to_contract().stop_strings


def test_a_prompt_of_several_chunks_is_one() -> None:
    prompt = parse(Sample, SAMPLE).to_contract(Budget(1000))
    assert prompt.tokens.tolist() == [1, 2, 3]
    assert prompt.params.max_tokens == 4


def test_every_field_of_a_sample_arrives() -> None:
    fields = {
        "num_samples": 3,
        "prompt_logprobs": True,
        "prompt_logprobs_last_n": 2,
        "topk_prompt_logprobs": 4,
        "topk_sample_logprobs": 5,
        "prompt_alt_tokens_k": 6,
        "target_prompt_logprobs": {"data": [7, 8, 9, -1], "dtype": "int64", "shape": [2, 2]},
        "sampling_params": {"max_tokens": 1, "seed": 2, "temperature": 0.5, "top_k": 3, "top_p": 0.25},
    }
    prompt = parse(Sample, SAMPLE | fields).to_contract(Budget(1000))
    request = prompt.request("base", None)
    assert request.params == SamplingParams(1, 0.5, 3, 0.25, 2)
    assert (request.num_samples, request.prompt_logprobs, request.prompt_logprobs_last_n) == (3, True, 2)
    assert (request.topk_prompt_logprobs, request.topk_sample_logprobs, request.prompt_alt_tokens_k) == (4, 5, 6)
    assert request.target_prompt_logprobs is not None
    assert request.target_prompt_logprobs.tolist() == [[7, 8], [9, -1]]
    assert prompt.cells is None


def test_cells_of_sparse_targets_that_are_not_listed_ask_for_nothing() -> None:
    sparse = {"shape": [2, 3], "sparse_crow_indices": [0, 1, 2], "sparse_col_indices": [2, 0]}
    target = {"data": [0, 6], "dtype": "int64"} | sparse
    prompt = parse(Sample, SAMPLE | {"target_prompt_logprobs": target}).to_contract(Budget(1000))
    assert prompt.target_prompt_logprobs is not None
    assert prompt.target_prompt_logprobs.tolist() == [[-1, -1, 0], [6, -1, -1]]
    assert prompt.cells is not None
    assert prompt.cells.columns.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("target_prompt_logprobs", {"data": [1.0], "dtype": "float32", "shape": [1, 1]}, "expected int64 token ids"),
        ("target_prompt_logprobs", {"data": [1], "dtype": "int64"}, "expected int64 token ids"),
        ("record_stability_info", True, "stable_reinforce"),
        ("num_samples", 1025, "num_samples"),
        ("topk_prompt_logprobs", 2**63, "topk_prompt_logprobs"),
        ("sampling_params", {"seed": -(2**63) - 1}, "seed"),
        ("prompt", {"chunks": [{"tokens": [2**63]}]}, "tokens"),
        ("prompt", {"chunks": [{"type": "image", "data": "aGk="}]}, "chunk of kind image"),
    ],
)
def test_what_cannot_be_sampled_is_named(field: str, value: object, words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse(Sample, SAMPLE | {field: value}).to_contract(Budget(1000))


def test_an_optimizer_may_fix_hyperparameters_and_come_back_as_it_was_shown() -> None:
    shown = {"type": "adamw", "learning_rate": 1e-3, "step": 4, "init_seed": 3, "lora": {"rank": 4}}
    assert parse(Optimizer, shown).to_contract() == OptimizerConfig("adamw", {"learning_rate": 1e-3})
    muon = {"type": "muon", "scale": "moonlight", "nesterov": True, "plugin_sha256": "ab"}
    fixed: dict[str, float | str] = {"scale": "moonlight", "nesterov": 1.0}
    assert parse(Optimizer, muon).to_contract() == OptimizerConfig("muon", fixed, "ab")
    with pytest.raises(
        UserError, match=r"optimizer_config has betas=\[0.9, 0.95\]; a hyperparameter is a finite number or"
    ):
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
