"""GS1 in plain double precision: what the correctness preflight holds the training script against.

One rollout per prompt; its baseline is the reward of the other prompts of the batch, weighted by how similar their text
is. The spec pins this file by its sha256, so a change here is a change of the experiment.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["TAU", "LossAndGradient", "advantages", "loss_and_gradient", "similarity_weights", "tfidf"]

TAU = 0.1
"""The temperature of the similarity weights."""

_WORD = re.compile(r"\b\w\w+\b")


def tfidf(prompts: Sequence[str]) -> list[dict[str, float]]:
    """One vector of length 1 per prompt, word to weight; words are runs of two or more word characters, lower-cased.

    A word's weight is its count times ln((1 + n) / (1 + documents with it)) + 1, over the n prompts of the batch: what
    scikit-learn's `TfidfVectorizer()` computes by default. A prompt without words is all zeros.
    """
    counts = [Counter(_WORD.findall(prompt.lower())) for prompt in prompts]
    documents = Counter(word for count in counts for word in count)
    idf = {word: math.log((1 + len(prompts)) / (1 + seen)) + 1 for word, seen in documents.items()}
    return [_unit({word: times * idf[word] for word, times in count.items()}) for count in counts]


def similarity_weights(prompts: Sequence[str], tau: float = TAU) -> list[list[float]]:
    """w[i][j]: softmax over j ≠ i of cos(e_i, e_j) / τ; w[i][i] is 0 and every row sums to 1."""
    vectors = tfidf(prompts)
    return [_softmax_without(i, [_dot(vector, other) / tau for other in vectors]) for i, vector in enumerate(vectors)]


def advantages(prompts: Sequence[str], rewards: Sequence[float], tau: float = TAU) -> list[float]:
    """r_i − Σ_{j≠i} w_ij · r_j, one per rollout.

    Raises:
        ValueError: for fewer than two rollouts, or another number of rewards than of prompts.
    """
    if len(prompts) != len(rewards) or len(prompts) < 2:
        raise ValueError(
            f"GS1 needs two or more prompts with one reward each; found {len(prompts)} and {len(rewards)}."
        )
    weights = similarity_weights(prompts, tau)
    return [
        reward - math.fsum(weight * other for weight, other in zip(row, rewards, strict=True))
        for reward, row in zip(rewards, weights, strict=True)
    ]


class LossAndGradient(NamedTuple):
    """The importance-sampling loss, and its derivative by each sampled token's log-probability."""

    loss: float
    gradient: list[list[float]]


def loss_and_gradient(
    logprobs: Sequence[Sequence[float]], sampled: Sequence[Sequence[float]], values: Sequence[float]
) -> LossAndGradient:
    """−Σ_i A_i Σ_t exp(p_it − q_it), summed over rollouts and tokens, not averaged.

    Args:
        logprobs: p, the learner's log-probability of each sampled token, per rollout.
        sampled: q, the sampler's of the same tokens.
        values: A, one advantage per rollout.
    """
    gradient = [
        [-value * math.exp(p - q) for p, q in zip(learner, sampler, strict=True)]
        for learner, sampler, value in zip(logprobs, sampled, values, strict=True)
    ]
    return LossAndGradient(math.fsum(term for rollout in gradient for term in rollout), gradient)


def _unit(vector: Mapping[str, float]) -> dict[str, float]:
    length = math.sqrt(math.fsum(weight * weight for weight in vector.values()))
    return {word: weight / length for word, weight in vector.items()}


def _dot(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return math.fsum(weight * other[word] for word, weight in one.items() if word in other)


def _softmax_without(index: int, scores: Sequence[float]) -> list[float]:
    largest = max(score for j, score in enumerate(scores) if j != index)
    raised = [0.0 if j == index else math.exp(score - largest) for j, score in enumerate(scores)]
    total = math.fsum(raised)
    return [value / total for value in raised]
