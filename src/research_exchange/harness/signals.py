"""Signals that tell whether a policy gradient stands on solid ground, in double precision.

`stability_signals` computes all of them for one training step, under the names that a run's page plots; each is also a
function of its own. Throughout, q is the sampler's distribution, which the tokens were drawn from, and p the learner's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tinker.types import Datum, ForwardBackwardOutput, SampledSequence

__all__ = [
    "Entropy",
    "LogprobGap",
    "RewardSpread",
    "entropy",
    "head_mass",
    "largest_logprob_gap",
    "logprob_gap",
    "logprob_gap_of",
    "reward_spread",
    "stability_signals",
]

Floats = NDArray[np.float64]

_LARGEST_LOG_RATIO = 500.0
"""A ratio of probabilities is computed no further than this, so that it stays a number."""


@dataclass(frozen=True)
class RewardSpread:
    """The rewards of one step."""

    mean: float
    std: float
    """Over all answers of the step, the mean's square subtracted (population)."""
    zero_advantage_groups: float
    """Share of groups rewarded all alike, which a group's mean as baseline leaves without any gradient."""


@dataclass(frozen=True)
class LogprobGap:
    """How far learner and sampler are apart on the tokens that were drawn, in nats."""

    mean: float
    """Of |log p - log q|."""
    largest: float
    """Of |log p - log q|."""
    k1: float
    """Mean of log q - log p: estimates KL(q‖p) without bias, and may be negative."""
    k3: float
    """Mean of p/q - 1 - log(p/q): estimates KL(q‖p) without bias as well, and is never negative."""


@dataclass(frozen=True)
class Entropy:
    """Mean over positions, in nats: from all tokens both are the entropy, from the likeliest alone they enclose it."""

    lower: float
    """As if the tokens outside the head were one."""
    upper: float
    """As if the tokens outside the head were equally likely."""


def reward_spread(rewards: ArrayLike) -> RewardSpread:
    """Of rewards [groups, answers per group]."""
    table = np.asarray(rewards, dtype=np.float64)
    alike = table.max(axis=1) == table.min(axis=1)
    return RewardSpread(float(table.mean()), float(table.std()), float(alike.mean()))


def logprob_gap(sampler: ArrayLike, learner: ArrayLike) -> LogprobGap:
    """Of the log-probabilities [tokens] that both give the tokens drawn; 0 throughout without any."""
    difference = np.asarray(learner, dtype=np.float64) - np.asarray(sampler, dtype=np.float64)
    if difference.size == 0:
        return LogprobGap(0.0, 0.0, 0.0, 0.0)
    apart = np.abs(difference)
    k3 = np.expm1(np.minimum(difference, _LARGEST_LOG_RATIO)) - difference
    return LogprobGap(float(apart.mean()), float(apart.max()), float(-difference.mean()), float(k3.mean()))


def logprob_gap_of(data: Sequence[Datum], output: ForwardBackwardOutput) -> LogprobGap:
    """The same, of what `forward_backward` answered for sequences as `importance_sampling` takes them.

    Importance sampling divides the learner's probability of a token by the sampler's. Before the first update both
    hold the same weights, so whatever differs is numerical error, and the gap should be next to nothing.

    Args:
        data: sequences with loss inputs `logprobs` (the sampler's) and `advantages`; tokens without an advantage carry
            no gradient and are left out.
        output: what was answered for these sequences.
    """
    counted = [datum.loss_fn_inputs["advantages"].to_numpy() != 0 for datum in data]
    sampler = [datum.loss_fn_inputs["logprobs"].to_numpy() for datum in data]
    learner = [result["logprobs"].to_numpy() for result in output.loss_fn_outputs]
    return logprob_gap(_selected(sampler, counted), _selected(learner, counted))


def largest_logprob_gap(data: Sequence[Datum], output: ForwardBackwardOutput) -> float:
    """max |log p - log q| over the tokens with an advantage, in nats; see `logprob_gap_of`."""
    return logprob_gap_of(data, output).largest


def head_mass(logprobs: ArrayLike) -> float:
    """Mean probability of a position's likeliest tokens together, of their log-probabilities [positions, k]."""
    return float(_head(logprobs).sum(axis=1).mean())


def entropy(logprobs: ArrayLike, vocabulary: int) -> Entropy:
    """Of the log-probabilities [positions, k] of the k likeliest of `vocabulary` tokens, not renormalized."""
    head = _head(logprobs)
    tail = np.clip(1.0 - head.sum(axis=1), 0.0, None)
    lower = _information(head).sum(axis=1) + _information(tail)
    outside = max(vocabulary - head.shape[1], 1)
    return Entropy(float(lower.mean()), float((lower + tail * np.log(outside)).mean()))


def stability_signals(
    *,
    rewards: ArrayLike,
    sequences: Sequence[SampledSequence],
    data: Sequence[Datum] = (),
    output: ForwardBackwardOutput | None = None,
    applied: Mapping[str, float] | None = None,
    vocabulary: int | None = None,
) -> dict[str, float]:
    """The signals of one training step by name; what the step has no numbers for is left out, never guessed.

    Args:
        rewards: [groups, answers per group].
        sequences: All answers of the step, with `topk_logprobs` where they were asked for (`topk_sample_logprobs`).
        data: The sequences that were trained on, and `output`, what `forward_backward` answered for them.
        applied: The metrics of `optim_step`'s answer.
        vocabulary: Rows of the model's output; bounds the entropy from above. The length of a tokenizer does so only
            where the output is not padded beyond it.
    """
    spread = reward_spread(rewards)
    lengths = [len(sequence.tokens) for sequence in sequences]
    signals = {
        "reward_mean": spread.mean,
        "reward_std": spread.std,
        "zero_advantage_groups": spread.zero_advantage_groups,
        "completion_tokens": float(np.mean(lengths)),
        "completions_cut_off": float(np.mean([sequence.stop_reason == "length" for sequence in sequences])),
    }
    drawn = [value for sequence in sequences for value in sequence.logprobs or ()]
    if drawn:
        signals["entropy_estimate"] = -float(np.mean(drawn, dtype=np.float64))
    heads = [sequence.topk_logprobs_np.logprobs for sequence in sequences if sequence.topk_logprobs_np is not None]
    if any(head.size for head in heads):
        head = np.concatenate(heads)
        signals["head_mass"] = head_mass(head)
        bounds = entropy(head, vocabulary or head.shape[1])
        signals |= {"entropy_lower": bounds.lower} | ({"entropy_upper": bounds.upper} if vocabulary else {})
    if data and output is not None:
        gap = logprob_gap_of(data, output)
        signals |= {
            "logprob_gap_mean": gap.mean,
            "logprob_gap_largest": gap.largest,
            "kl_k1": gap.k1,
            "kl_k3": gap.k3,
        }
    if applied is not None and "grad_norm" in applied:
        signals["grad_norm"] = float(applied["grad_norm"])
    return signals


def _selected(arrays: Sequence[NDArray[np.float32]], masks: Sequence[NDArray[np.bool_]]) -> Floats:
    chosen = [array[mask] for array, mask in zip(arrays, masks, strict=True)]
    return np.concatenate([np.zeros(0), *chosen])


def _head(logprobs: ArrayLike) -> Floats:
    """Probabilities [positions, k]; empty places of the SDK's matrices have a log-probability so low that it is 0."""
    return np.exp(np.atleast_2d(np.asarray(logprobs, dtype=np.float64)))


def _information(probabilities: Floats) -> Floats:
    """-p log p, and 0 where p is 0."""
    return -probabilities * np.log(np.where(probabilities > 0, probabilities, 1.0))
