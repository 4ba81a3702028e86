"""The loss of the treatment in plain double precision: what the correctness preflight holds `paired.py` against.

The spec pins this file by its sha256, so a change here is a change of the experiment.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LossAndDerivative", "loss_and_derivative"]


class LossAndDerivative(NamedTuple):
    """A loss, and its derivative by each log-probability of the learner."""

    loss: float
    derivative: list[list[float]]


def loss_and_derivative(
    learner: Sequence[Sequence[float]],
    sampler: Sequence[Sequence[float]],
    answer: Sequence[Sequence[float]],
    rewards: Sequence[float],
    baseline: float,
) -> LossAndDerivative:
    """−Σ_i (r_i − b) Σ_t exp(p_it − q_it), summed over answers and their tokens, not averaged.

    Args:
        learner: p, the learner's log-probability of each token, per answer.
        sampler: q, the sampler's of the same tokens.
        answer: 1 for the tokens of the answer, 0 for those of its prompt.
        rewards: r, one per answer.
        baseline: b, the mean reward of the batch before.
    """
    derivative = [
        [-(reward - baseline) * math.exp(p - q) if belongs else 0.0 for p, q, belongs in zip(ps, qs, mask, strict=True)]
        for ps, qs, mask, reward in zip(learner, sampler, answer, rewards, strict=True)
    ]
    return LossAndDerivative(math.fsum(value for row in derivative for value in row), derivative)
