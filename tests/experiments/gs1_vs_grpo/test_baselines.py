"""What is true of the baselines, by exact enumeration and in double precision."""

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from experiments.gs1_vs_grpo import reference
from experiments.gs1_vs_grpo.gs1.baselines import (
    Mode,
    Similarity,
    TauRow,
    baseline_weights,
    contributors,
    group_advantages,
    largest_tau_within,
    loo_advantages,
    softmax_weights,
    tau_table,
    uniform_weights,
    variance_equivalent_batch,
)
from experiments.gs1_vs_grpo.gs1.pilot import measured
from research_exchange.harness import HarnessError, jsonl

Floats = NDArray[np.float64]

WORDS = Similarity({"analyzer": "word", "ngram_range": [1, 1]})
CHARACTERS = Similarity({"analyzer": "char", "ngram_range": [1, 2]})
PROMPTS = [
    "Two red apples cost $3.",
    "Two  green apples cost more",
    "A train leaves at 5",
    "The train is late",
    "x y z",
]
SUMS = ["34+5", "34+6", "7+5", "91+0", "12+3"]


@pytest.mark.parametrize(("similarity", "texts"), [(WORDS, PROMPTS), (CHARACTERS, PROMPTS), (CHARACTERS, SUMS)])
@pytest.mark.parametrize("tau", [0.05, 0.2, 10.0])
def test_scikit_learn_and_the_reference_compute_the_same_weights(
    similarity: Similarity, texts: list[str], tau: float
) -> None:
    wanted = reference.similarity_weights(texts, tau, similarity.characters)
    assert softmax_weights(similarity.cosines(texts), tau) == pytest.approx(np.array(wanted), abs=1e-12)


def test_the_advantages_are_those_of_the_reference() -> None:
    rewards = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    found = loo_advantages(rewards, softmax_weights(CHARACTERS.cosines(SUMS), 0.2))
    assert found == pytest.approx(np.array(reference.advantages(SUMS, rewards.tolist(), 0.2, (1, 2))), abs=1e-12)


def test_the_recorded_call_names_what_it_was_called_with_and_every_default() -> None:
    record = json.loads(json.dumps(CHARACTERS.record()))
    assert record["call"] == "TfidfVectorizer(analyzer='char', ngram_range=(1, 2))"
    assert (record["settings"]["smooth_idf"], record["settings"]["norm"]) == (True, "l2")
    assert record["scikit-learn"]


def weights_of(name: str, size: int) -> Floats:
    """Rows that sum to 1, with nothing on the diagonal."""
    if name == "uniform":
        return uniform_weights(size)
    raw = np.random.default_rng(3).random((size, size)) ** 4
    np.fill_diagonal(raw, 0)
    weights: Floats = raw / raw.sum(axis=1, keepdims=True)
    return weights


def expected_gradient(logits: Floats, means: Floats, weigh: Any) -> tuple[Floats, Floats]:
    """E[Σ_i A_i ∇log π(y_i)] over all answers of all prompts, and the true gradient Σ_i ∇E[r_i].

    Every prompt has its own policy over three answers, and answer y of prompt i has the reward means[i, y].
    """
    prompts, answers = logits.shape
    policies = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = np.zeros_like(logits)
    for drawn in itertools.product(range(answers), repeat=prompts):
        probability = math.prod(policies[i, y] for i, y in enumerate(drawn))
        advantages = weigh(np.array([means[i, y] for i, y in enumerate(drawn)]))
        scores = np.eye(answers)[list(drawn)] - policies
        found += probability * advantages[:, None] * scores
    true = policies * (means - (policies * means).sum(axis=1, keepdims=True))
    return found, true


@pytest.mark.parametrize("name", ["uniform", "any"])
def test_the_gradient_is_unbiased_for_any_weights_without_the_rollout_itself(name: str) -> None:
    """Methods §2.2, by exact enumeration of 3^4 outcomes."""
    draw = np.random.default_rng(0)
    logits, means, weights = draw.normal(size=(4, 3)), draw.random((4, 3)), weights_of(name, 4)
    found, true = expected_gradient(logits, means, lambda rewards: loo_advantages(rewards, weights))
    assert found == pytest.approx(true, abs=1e-14)
    leaky = 0.5 * weights + 0.5 * np.eye(4)
    biased, _ = expected_gradient(logits, means, lambda rewards: rewards - leaky @ rewards)
    assert biased == pytest.approx(true / 2, abs=1e-14), "half of the own reward is half of the gradient"


def test_grpo_has_the_gradient_times_one_less_one_over_the_group() -> None:
    draw = np.random.default_rng(1)
    logits, means = np.tile(draw.normal(size=3), (4, 1)), np.tile(draw.random(3), (4, 1))
    found, true = expected_gradient(logits, means, lambda rewards: group_advantages(rewards[None]).ravel())
    assert found == pytest.approx(0.75 * true, abs=1e-14)


def test_advantages_sum_to_nothing_under_equal_weights_and_to_the_formula_under_others() -> None:
    rewards = np.random.default_rng(2).random(6)
    assert loo_advantages(rewards, uniform_weights(6)).sum() == pytest.approx(0, abs=1e-14)
    weights = weights_of("any", 6)
    total = (rewards * (1 - weights.sum(axis=0))).sum()
    assert abs(total) > 1e-3
    assert loo_advantages(rewards, weights).sum() == pytest.approx(total, abs=1e-14)


def test_rewards_that_are_all_alike_are_worth_exactly_nothing() -> None:
    for reward in (0.0, 1.0, 1 / 3):
        assert not loo_advantages(np.full(7, reward), weights_of("any", 7)).any()


def test_a_group_that_is_rewarded_all_alike_is_lost_and_prompts_without_groups_lose_a_whole_batch_or_nothing() -> None:
    """Methods §2.2: p^G + (1-p)^G of the rollouts are worth nothing, by enumeration of 2^8 outcomes of one step."""
    solved, weights, lost_by_grpo, lost_by_gs1 = 0.3, weights_of("any", 8), 0.0, 0.0
    for drawn in itertools.product((0.0, 1.0), repeat=8):
        rewards = np.array(drawn)
        probability = np.where(rewards == 1, solved, 1 - solved).prod()
        lost_by_grpo += probability * float((group_advantages(rewards.reshape(2, 4)) == 0).mean())
        lost_by_gs1 += probability * float((loo_advantages(rewards, weights) == 0).mean())
    assert lost_by_grpo == pytest.approx(solved**4 + (1 - solved) ** 4, abs=1e-14)
    assert lost_by_gs1 == pytest.approx(solved**8 + (1 - solved) ** 8, abs=1e-14)


def test_the_error_of_the_baseline_is_squared_bias_and_weighted_variance() -> None:
    """MSE_i = (Σ w m − m_i)² + Σ w² v for Bernoulli rewards, by enumeration of 2^5 outcomes."""
    means, weights = np.array([0.1, 0.3, 0.5, 0.8, 0.9]), weights_of("any", 5)
    exact = np.zeros(5)
    for drawn in itertools.product((0.0, 1.0), repeat=5):
        rewards = np.array(drawn)
        probability = np.where(rewards == 1, means, 1 - means).prod()
        exact += probability * (weights @ rewards - means) ** 2
    variances = means * (1 - means)
    assert exact == pytest.approx((weights @ means - means) ** 2 + weights**2 @ variances, abs=1e-14)


def test_contributors_are_those_of_equal_weights_or_fewer() -> None:
    assert contributors(uniform_weights(64)) == pytest.approx(np.full(64, 63.0))
    assert (contributors(weights_of("any", 8)) < 7).all()


def test_the_control_has_the_same_weights_dealt_to_other_rollouts() -> None:
    own, dealt = (baseline_weights(mode, SUMS, CHARACTERS, 0.2, seed=(0, 4)) for mode in (Mode.GS1, Mode.GS1_SHUFFLED))
    assert not np.allclose(own, dealt)
    assert not dealt.diagonal().any()
    assert np.sort(contributors(dealt)) == pytest.approx(np.sort(contributors(own)))
    assert np.array_equal(dealt, baseline_weights(Mode.GS1_SHUFFLED, SUMS, CHARACTERS, 0.2, seed=(0, 4)))
    uniform = baseline_weights(Mode.UNIFORM_LOO, SUMS, CHARACTERS, 0.2, seed=(0, 4))
    assert np.array_equal(uniform, uniform_weights(len(SUMS)))


def test_a_similarity_that_tells_the_rewards_is_worth_a_larger_batch_and_a_shuffled_one_is_not() -> None:
    """Two kinds of prompts, one solved and one not: what the variance-equivalent batch and the control can show."""
    texts = [f"{kind} {number:02}" for kind in ("apples pears plums", "trains trams buses") for number in range(8)]
    rewards = np.repeat([1.0, 0.0], 8)
    equal = loo_advantages(rewards, uniform_weights(16))[None]
    size = {
        mode: variance_equivalent_batch(
            loo_advantages(rewards, baseline_weights(mode, texts, WORDS, 0.05, seed=(0, 0)))[None], equal
        )
        for mode in Mode
        if mode is not Mode.GRPO
    }
    assert size[Mode.GS1] > 10 * 16
    assert size[Mode.UNIFORM_LOO] == pytest.approx(16)
    assert size[Mode.GS1_SHUFFLED] < 2 * 16


def test_the_numbers_of_the_gate_follow_from_the_logged_weights() -> None:
    """Two rollouts each listen to the other alone, two steps: one contributor, as many as equal weights have."""
    rows = [
        {"step": step, "item_id": f"{step}-{i}", "reward": reward, "weights": weights}
        for step, rewards in enumerate([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        for i, (reward, weights) in enumerate(zip(rewards, [[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]], strict=True))
    ]
    found = measured(jsonl(rows))
    assert found["gs1_effective_contributors_median"] == 1
    assert found["uniform_loo_effective_contributors_median"] == 2
    baselines = np.array([[0, 1, 0.5], [0, 0, 0]])
    uniform = np.array([[0, 0.5, 0.5], [0.5, 0.5, 0]])
    assert found["gs1_mean_abs_baseline_minus_uniform_loo"] == pytest.approx(np.abs(baselines - uniform).mean())
    assert found["gs1_batch_mean_reward_pilot"] == pytest.approx(1 / 3)


def test_the_largest_temperature_that_every_batch_keeps_to() -> None:
    rows = [TauRow(0.2, 59, 60, 61), TauRow(0.1, 30, 38, 41), TauRow(0.05, 14, 22, 32), TauRow(0.02, 2.5, 3, 4)]
    assert largest_tau_within(rows, 2, 40) == 0.05
    assert largest_tau_within(rows, 2, 3) is None
    table = tau_table([SUMS, PROMPTS], CHARACTERS, (1.0, 0.01))
    assert table[0].lowest > table[1].highest >= 1


def test_the_default_vectoriser_finds_no_word_in_a_sum() -> None:
    """Why the spec of the laptop pins another call."""
    with pytest.raises(HarnessError, match=r"nothing to compare in 2 prompts such as '1\+2' \(empty vocabulary"):
        WORDS.cosines(["1+2", "3+4"])
