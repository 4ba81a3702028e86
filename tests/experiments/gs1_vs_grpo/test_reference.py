"""The reference of GS1 computes what its spec says, checked by hand-sized cases."""

import math

import pytest

from experiments.gs1_vs_grpo.reference import advantages, loss_and_gradient, similarity_weights, tfidf


def test_vectors_have_length_one_and_rare_words_weigh_more() -> None:
    one, other = tfidf(["two red apples", "two green pears"])
    assert math.isclose(sum(weight * weight for weight in one.values()), 1)
    assert one["red"] > one["two"] == other["two"]
    assert math.isclose(one["red"] / one["two"], 1 + math.log(3 / 2))


def test_a_single_letter_is_no_word_and_a_prompt_without_words_is_no_error() -> None:
    assert tfidf(["a b c", "Two TWO"]) == [{}, {"two": 1.0}]


def test_weights_leave_the_rollout_itself_out_and_prefer_similar_prompts() -> None:
    weights = similarity_weights(["add two apples", "add two pears", "integrate a function"])
    assert [row[index] for index, row in enumerate(weights)] == [0, 0, 0]
    assert all(math.isclose(sum(row), 1) for row in weights)
    assert weights[0][1] > 0.9


def test_prompts_alike_make_the_baseline_the_mean_of_the_others() -> None:
    assert advantages(["same words"] * 4, [1, 0, 0, 1]) == pytest.approx([2 / 3, -2 / 3, -2 / 3, 2 / 3])


def test_the_baseline_follows_the_similarity() -> None:
    """cos = 0 to both others: weights 1/2 each."""
    assert advantages(["aa", "bb", "cc"], [1, 1, 0]) == pytest.approx([0.5, 0.5, -1])


def test_the_gradient_is_that_of_the_loss() -> None:
    logprobs, sampled, values = [[-1.0, -2.0], [-0.5]], [[-1.1, -2.0], [-0.7]], [0.5, -1.0]
    loss, gradient = loss_and_gradient(logprobs, sampled, values)
    assert loss == pytest.approx(-0.5 * (math.exp(0.1) + 1) + math.exp(0.2))
    step = 1e-6
    moved = loss_and_gradient([[-1.0 + step, -2.0], [-0.5]], sampled, values).loss
    assert (moved - loss) / step == pytest.approx(gradient[0][0], rel=1e-5)


@pytest.mark.parametrize(("prompts", "rewards"), [(["alone"], [1.0]), (["one", "two"], [1.0])])
def test_a_batch_that_has_no_others_is_refused(prompts: list[str], rewards: list[float]) -> None:
    with pytest.raises(ValueError, match="two or more prompts with one reward each"):
        advantages(prompts, rewards)
