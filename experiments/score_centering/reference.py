"""Score centering in plain double precision: what the correctness preflight holds `losses.py` against.

Written from the equations in README.md, one token at a time, with the standard library alone. The spec pins this file
by its sha256, so a change here is a change of the experiment.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LossAndDerivative", "coefficients", "loss_and_derivative", "ratio_weight"]

FLOOR = 1e-6
"""Least mass outside the head, of sampler and learner alike."""
EMPTY = -9999.0
"""A log-probability below this marks a place of the head that holds no token."""


class LossAndDerivative(NamedTuple):
    """A loss, and its derivative by each log-probability of the learner."""

    loss: float
    derivative: list[list[list[float]]]
    """[answers][positions][1 + k], in the shape of the learner's log-probabilities."""


def ratio_weight(name: str, ratio: float) -> float:
    """f(r), the weight of a token that the learner holds r times as probable as the sampler."""
    match name:
        case "none":
            return 1.0
        case "identity":
            return ratio
        case "tis":
            return min(ratio, 2.0)
        case "mis":
            return ratio if 0.5 <= ratio <= 5.0 else 0.0
    raise ValueError(f"There is no weight {name!r}; name one of none, identity, tis, mis.")


def coefficients(sampler: Sequence[float], learner: Sequence[float], name: str = "none") -> list[float]:
    """c_v = q_v f(p_v/q_v) - alpha p_v with alpha = rho f(1/rho), for the tokens of the head.

    Outside the head q is taken to be rho p, so that the head stands for the whole vocabulary.

    Args:
        sampler: q, probabilities of the head, not renormalized.
        learner: p, the learner's of the same tokens.
    """
    rho = max(1.0 - math.fsum(sampler), FLOOR) / max(1.0 - math.fsum(learner), FLOOR)
    alpha = rho * ratio_weight(name, 1.0 / rho)
    return [_weighted(q, p, name) - alpha * p for q, p in zip(sampler, learner, strict=True)]


def _weighted(q: float, p: float, name: str) -> float:
    """q f(p/q), and its limit where q is 0: only the bare ratio grows as fast as q falls."""
    if q == 0.0:
        return p if name == "identity" else 0.0
    return q * ratio_weight(name, p / q)


def loss_and_derivative(
    learner: Sequence[Sequence[Sequence[float]]],
    sampled: Sequence[Sequence[float]],
    heads: Sequence[Sequence[Sequence[float]]],
    advantages: Sequence[Sequence[float]],
    *,
    weight: str = "none",
    centered: bool = True,
) -> LossAndDerivative:
    """-sum A ( f(p_y/q_y) log p_y - sum_v c_v log p_v ), f and c held constant, summed over answers and tokens.

    Args:
        learner: log p of the sampled token and of the k tokens of the head, per answer and position.
        sampled: log q of the sampled token.
        heads: log q of the head.
        advantages: A; a position with 0 belongs to a prompt or is worth nothing, and is passed over.
        weight: The name of f.
        centered: Whether the correction is there; without it the sum over the head is left out.
    """
    terms: list[float] = []
    derivative = []
    for rows in zip(learner, sampled, heads, advantages, strict=True):
        slopes = []
        for log_p, log_q, head, advantage in zip(*rows, strict=True):
            slope = [0.0] * len(log_p)
            if advantage:
                slope[0] = -advantage * ratio_weight(weight, math.exp(log_p[0] - log_q))
                held = [place for place, value in enumerate(head) if value > EMPTY] if centered else []
                q = [math.exp(head[place]) for place in held]
                p = [math.exp(log_p[1 + place]) for place in held]
                for place, c in zip(held, coefficients(q, p, weight), strict=True):
                    slope[1 + place] = advantage * c
                terms += [each * value for each, value in zip(slope, log_p, strict=True) if each]
            slopes.append(slope)
        derivative.append(slopes)
    return LossAndDerivative(math.fsum(terms), derivative)
