"""Stability signals against their definitions in double precision, and against a real training service."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tinker
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tinker.types import AdamParams, Datum, ModelInput, SampledSequence, SamplingParams, TensorData

from research_exchange.harness import signals

VOCABULARY = 50


def distribution(seed: int, positions: int = 6, spread: float = 3.0) -> NDArray[np.float64]:
    """Log-probabilities [positions, VOCABULARY], each row in descending order."""
    logits = np.random.default_rng(seed).normal(scale=spread, size=(positions, VOCABULARY))
    logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -np.sort(-logprobs, axis=1)


def test_rewards_their_spread_and_the_groups_without_an_advantage() -> None:
    spread = signals.reward_spread([[1.0, 0, 0, 0], [1.0, 1, 1, 1], [0.0, 0, 0, 0], [0.1, 0.1, 0.1, 0.1]])
    flat = [1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0.1, 0.1, 0.1, 0.1]
    mean = math.fsum(flat) / 16
    assert spread.mean == pytest.approx(mean, rel=1e-15)
    assert spread.std == pytest.approx(math.sqrt(math.fsum((value - mean) ** 2 for value in flat) / 16), rel=1e-15)
    assert spread.zero_advantage_groups == 0.75, "0.1 four times over is all alike, whatever rounding makes of its mean"


def test_the_gap_by_its_definition() -> None:
    sampler, learner = [-1.0, -2.0, -0.5], [-1.5, -1.0, -0.5]
    gap = signals.logprob_gap(sampler, learner)
    assert (gap.mean, gap.largest) == (0.5, 1.0)
    assert gap.k1 == pytest.approx(-0.5 / 3, rel=1e-15)
    assert gap.k3 == pytest.approx(((math.exp(-0.5) - 1 + 0.5) + (math.e - 2)) / 3, rel=1e-15)
    assert signals.logprob_gap([], []) == signals.LogprobGap(0.0, 0.0, 0.0, 0.0)
    assert math.isfinite(signals.logprob_gap([-2000.0], [0.0]).k3)


@given(st.lists(st.integers(1, 5), min_size=2, max_size=6), st.integers(0, 2**32 - 1))
def test_both_estimators_have_the_divergence_as_their_mean(counts: list[int], seed: int) -> None:
    """Tokens drawn exactly as often as q says: the sample mean is the expectation."""
    q = np.array(counts) / sum(counts)
    p = np.random.default_rng(seed).dirichlet(np.ones(len(counts))) * 0.98 + 0.02 / len(counts)
    divergence = float((q * np.log(q / p)).sum())
    drawn = np.repeat(np.arange(len(counts)), counts)
    gap = signals.logprob_gap(np.log(q)[drawn], np.log(p)[drawn])
    assert gap.k1 == pytest.approx(divergence, abs=1e-12)
    assert gap.k3 == pytest.approx(divergence, abs=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, VOCABULARY), st.floats(0.0, 8.0))
def test_the_head_encloses_the_entropy(seed: int, k: int, spread: float) -> None:
    logprobs = distribution(seed, spread=spread)
    exact = float(-(np.exp(logprobs) * logprobs).sum(axis=1).mean())
    bounds = signals.entropy(logprobs[:, :k], VOCABULARY)
    assert bounds.lower - 1e-9 <= exact <= bounds.upper + 1e-9
    assert signals.head_mass(logprobs[:, :k]) == pytest.approx(np.exp(logprobs[:, :k]).sum(axis=1).mean(), rel=1e-12)
    whole = signals.entropy(logprobs, VOCABULARY)
    assert whole.lower == pytest.approx(exact, abs=1e-9)
    assert whole.upper == pytest.approx(exact, abs=1e-9)


def test_a_uniform_distribution_and_a_certain_one() -> None:
    uniform = np.full((2, 10), math.log(0.1))
    assert signals.entropy(uniform, 10).lower == pytest.approx(math.log(10), rel=1e-12)
    assert signals.entropy(uniform[:, :4], 10).upper == pytest.approx(math.log(10), rel=1e-12)
    assert signals.entropy([[0.0, -99999.0]], 10) == signals.Entropy(0.0, 0.0), "an empty place has no mass"


@pytest.fixture(scope="module")
def answers(learner: tinker.TrainingClient, tokenizer: Any) -> list[SampledSequence]:
    sampler = learner.save_weights_and_get_sampling_client().result()
    prompt = ModelInput.from_ints(tokenizer.encode("1+1="))
    params = SamplingParams(max_tokens=4, temperature=1.0, seed=3)
    return list(sampler.sample(prompt, 4, params, topk_sample_logprobs=8).result().sequences)


def data_of(answers: list[SampledSequence], tokenizer: Any, *, shift: float = 0.0) -> list[Datum]:
    """The answers to train on, two of the four with an advantage; the sampler's logprobs are lowered by `shift`."""
    prompt = tokenizer.encode("1+1=")
    nothing = [0.0] * (len(prompt) - 1)
    data = []
    for answer, advantage in zip(answers, (0.5, 0.0, -0.5, 0.0), strict=True):
        tokens = [*prompt, *answer.tokens]
        drawn = [value - shift for value in answer.logprobs or []]
        arrays = {"logprobs": [*nothing, *drawn], "advantages": [*nothing, *[advantage] * len(answer.tokens)]}
        inputs = {name: TensorData.from_numpy(np.array(values, dtype=np.float32)) for name, values in arrays.items()}
        target = TensorData.from_numpy(np.array(tokens[1:], dtype=np.int64))
        datum = Datum(model_input=ModelInput.from_ints(tokens[:-1]), loss_fn_inputs={"target_tokens": target, **inputs})
        data.append(datum)
    return data


def test_the_signals_of_a_real_step(
    learner: tinker.TrainingClient, tokenizer: Any, answers: list[SampledSequence]
) -> None:
    data = data_of(answers, tokenizer)
    output = learner.forward_backward(data, "importance_sampling").result()
    applied = learner.optim_step(AdamParams(learning_rate=0.0)).result().metrics
    found = signals.stability_signals(
        rewards=[[1, 0, 0, 0]], sequences=answers, data=data, output=output, applied=applied, vocabulary=257
    )
    assert all(math.isfinite(value) for value in found.values())
    assert found["reward_mean"] == 0.25
    assert found["completion_tokens"] == float(Fraction(sum(len(answer.tokens) for answer in answers), 4))
    assert found["completions_cut_off"] == sum(answer.stop_reason == "length" for answer in answers) / 4
    assert 0 <= found["logprob_gap_largest"] < 1e-4, "the same weights on both sides"
    assert abs(found["kl_k3"]) < 1e-6
    assert 0 < found["head_mass"] < 1
    assert 0 < found["entropy_lower"] < found["entropy_upper"] <= math.log(257)
    drawn = np.concatenate([np.array(answer.logprobs, dtype=np.float64) for answer in answers])
    assert found["entropy_estimate"] == pytest.approx(-drawn.mean(), rel=1e-12)
    assert found["grad_norm"] > 0


def test_a_gap_shows_where_there_is_an_advantage(
    learner: tinker.TrainingClient, tokenizer: Any, answers: list[SampledSequence]
) -> None:
    data = data_of(answers, tokenizer, shift=0.25)
    output = learner.forward_backward(data, "importance_sampling").result()
    learner.optim_step(AdamParams(learning_rate=0.0)).result()
    gap = signals.logprob_gap_of(data, output)
    assert (gap.mean, gap.largest, gap.k1) == pytest.approx((0.25, 0.25, -0.25), abs=1e-4)
    unweighted = replace(output, loss_fn_outputs=output.loss_fn_outputs[1:2])
    assert signals.largest_logprob_gap(data[1:2], unweighted) == 0.0, "no advantage, no gap"


def test_what_was_not_measured_is_left_out(answers: list[SampledSequence]) -> None:
    bare = [SampledSequence(stop_reason="stop", sequence_id=f"s{n}", tokens_np=np.arange(3)) for n in range(2)]
    found = signals.stability_signals(rewards=[[0, 1]], sequences=bare)
    assert set(found) == {
        "reward_mean",
        "reward_std",
        "zero_advantage_groups",
        "completion_tokens",
        "completions_cut_off",
    }
    assert "entropy_upper" not in signals.stability_signals(rewards=[[0, 1, 1, 1]], sequences=answers)
