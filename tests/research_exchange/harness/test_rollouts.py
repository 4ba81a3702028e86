"""Groups of answers from a real service, and the sequences made of them."""

from typing import Any

import numpy as np
import tinker
from tinker.types import SampledSequence

from research_exchange.harness.rollouts import policy_datum, sample_groups, scored_datum, weighted


def test_each_prompt_has_its_group_and_a_seed_of_its_own(learner: tinker.TrainingClient, tokenizer: Any) -> None:
    sampler = learner.save_weights_and_get_sampling_client().result()
    prompt = tokenizer.encode("1+1=")

    def draw(seed: int) -> list[list[list[int]]]:
        groups = sample_groups(sampler, [prompt, prompt], group_size=3, max_tokens=4, stop=["\n"], seed=seed)
        return [[list(answer.tokens) for answer in group] for group in groups]

    groups = draw(5)
    assert [len(group) for group in groups] == [3, 3]
    assert all(1 <= len(answer) <= 4 for group in groups for answer in group)
    assert groups == draw(5)
    assert groups[0] != groups[1] == draw(6)[0], "the second prompt takes the next number"


def test_the_likeliest_tokens_come_along_where_they_are_asked_for(
    learner: tinker.TrainingClient, tokenizer: Any
) -> None:
    sampler = learner.save_weights_and_get_sampling_client().result()
    prompts = [tokenizer.encode("1+1=")]
    [[plain], [headed]] = (
        sample_groups(sampler, prompts, group_size=1, max_tokens=3, seed=1, topk=topk)[0] for topk in (0, 5)
    )
    assert plain.topk_logprobs_np is None
    assert headed.topk_logprobs_np is not None
    assert headed.topk_logprobs_np.token_ids.shape == (len(headed.tokens), 5)
    assert list(headed.tokens) == list(plain.tokens)


def test_only_the_answer_is_worth_something() -> None:
    answer = SampledSequence("stop", "s", np.array([7, 8], np.int32), np.array([-1.0, -2.0], np.float32))
    datum = policy_datum([1, 2, 3], answer, 0.5)
    assert datum.model_input.to_ints() == [1, 2, 3, 7]
    inputs = {name: values.to_numpy().tolist() for name, values in datum.loss_fn_inputs.items()}
    assert inputs == {
        "target_tokens": [2, 3, 7, 8],
        "logprobs": [0.0, 0.0, -1.0, -2.0],
        "advantages": [0.0, 0.0, 0.5, 0.5],
    }


def test_a_value_weighs_the_answer_and_0_leaves_it_out() -> None:
    answer = SampledSequence("stop", "s", np.array([7], np.int32), np.array([-1.0], np.float32))
    data = [policy_datum([1, 2], answer, 1.0), policy_datum([3, 4], answer, 0.5)]
    [kept] = weighted(data, [0.0, -0.5])
    assert kept.model_input.to_ints() == [3, 4]
    assert kept.loss_fn_inputs["advantages"].to_numpy().tolist() == [0.0, -0.25]
    assert kept.loss_fn_inputs["logprobs"] == data[1].loss_fn_inputs["logprobs"]


def test_a_scored_sequence_counts_every_token_but_the_first() -> None:
    datum = scored_datum([1, 2, 3])
    assert datum.model_input.to_ints() == [1, 2]
    assert datum.loss_fn_inputs["target_tokens"].to_numpy().tolist() == [2, 3]
    assert datum.loss_fn_inputs["weights"].to_numpy().tolist() == [1.0, 1.0]
