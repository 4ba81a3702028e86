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
"""The temperature of the similarity weights, where none is given."""

Range = tuple[int, int]

_WORD = re.compile(r"\b\w\w+\b")
_SPACES = re.compile(r"\s\s+")


def tfidf(prompts: Sequence[str], characters: Range | None = None) -> list[dict[str, float]]:
    """One vector of length 1 per prompt, term to weight; terms are runs of two or more word characters, lower-cased.

    A term's weight is its count times ln((1 + n) / (1 + documents with it)) + 1, over the n prompts of the batch: what
    scikit-learn's `TfidfVectorizer()` computes by default. A prompt without terms is all zeros.

    Args:
        characters: Where given, terms are runs of so many characters instead, from the first number to the second,
            as `TfidfVectorizer(analyzer="char", ngram_range=characters)` takes them.
    """
    counts = [Counter(_terms(prompt.lower(), characters)) for prompt in prompts]
    documents = Counter(term for count in counts for term in count)
    idf = {term: math.log((1 + len(prompts)) / (1 + seen)) + 1 for term, seen in documents.items()}
    return [_unit({term: times * idf[term] for term, times in count.items()}) for count in counts]


def similarity_weights(prompts: Sequence[str], tau: float = TAU, characters: Range | None = None) -> list[list[float]]:
    """w[i][j]: softmax over j ≠ i of cos(e_i, e_j) / τ; w[i][i] is 0 and every row sums to 1."""
    vectors = tfidf(prompts, characters)
    return [_softmax_without(i, [_dot(vector, other) / tau for other in vectors]) for i, vector in enumerate(vectors)]


def advantages(
    prompts: Sequence[str], rewards: Sequence[float], tau: float = TAU, characters: Range | None = None
) -> list[float]:
    """r_i − Σ_{j≠i} w_ij · r_j, one per rollout.

    Raises:
        ValueError: for fewer than two rollouts, or another number of rewards than of prompts.
    """
    if len(prompts) != len(rewards) or len(prompts) < 2:
        raise ValueError(
            f"GS1 needs two or more prompts with one reward each; found {len(prompts)} and {len(rewards)}."
        )
    weights = similarity_weights(prompts, tau, characters)
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


def _terms(text: str, characters: Range | None) -> list[str]:
    if characters is None:
        return _WORD.findall(text)
    plain, (least, most) = _SPACES.sub(" ", text), characters
    return [plain[at : at + size] for size in range(least, most + 1) for at in range(len(plain) - size + 1)]


def _unit(vector: Mapping[str, float]) -> dict[str, float]:
    length = math.sqrt(math.fsum(weight * weight for weight in vector.values()))
    return {term: weight / length for term, weight in vector.items()}


def _dot(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return math.fsum(weight * other[term] for term, weight in one.items() if term in other)


def _softmax_without(index: int, scores: Sequence[float]) -> list[float]:
    largest = max(score for j, score in enumerate(scores) if j != index)
    raised = [0.0 if j == index else math.exp(score - largest) for j, score in enumerate(scores)]
    total = math.fsum(raised)
    return [value / total for value in raised]
