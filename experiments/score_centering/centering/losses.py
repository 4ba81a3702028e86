"""The losses of the three arms, and the sequences that they take.

All arms send the same data: at each position the sampled token and, beside it, the sampler's k most likely tokens, with
the sampler's own log-probabilities. They differ in what they make of the learner's log-probabilities of these tokens.
Losses are sums over tokens, as the service's own are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray
from tinker.types import Datum, ModelInput, SampledSequence, TensorData

from research_exchange.harness import HarnessError

__all__ = ["EMPTY", "FLOOR", "NO_OP", "Kind", "Objective", "Weight", "coefficients", "head_datum", "sampled_column"]

FLOOR = 1e-6
"""Least mass outside the head, of sampler and learner alike."""
EMPTY = -99999.0
"""The log-probability that the SDK puts where a position has fewer than k tokens."""
_HELD = -9999.0
"""Everything above is a token's."""
_AGREEMENT = 1e-3
"""How far the two log-probabilities may be apart that the sampler gives one and the same token, in nats."""


class Kind(StrEnum):
    """What an arm trains with."""

    IMPORTANCE_SAMPLING = "importance_sampling"
    """−A r, with r = p/q differentiated: the stock surrogate."""
    SCORE_CENTERING = "score_centering"
    """−A ( f(r) log p_y − Σ c_v log p_v ), f and c held constant."""
    POLICY_GRADIENT = "policy_gradient"
    """−A log p_y: the ratio dropped, nothing corrected. It tells what dropping the ratio does without centering."""


class Weight(StrEnum):
    """f, the weight of a token by its ratio r = p/q, in the loss that is centered."""

    NONE = "none"
    """1: the paper's score centering."""
    IDENTITY = "identity"
    """r: importance sampling, whose correction is nothing at all."""
    TIS = "tis"
    """min(r, 2): truncated importance sampling."""
    MIS = "mis"
    """r inside [0.5, 5], and 0 outside: masked importance sampling."""


NO_OP = (
    "With the weight identity the centered arm is plain importance sampling: every coefficient of its correction is "
    "zero, whatever sampler and learner are, so only the arm without ratio and correction (CENTER=plain) can differ."
)


def sampled_weight(weight: Weight, ratio: torch.Tensor) -> torch.Tensor:
    """f(r) of the tokens that were sampled."""
    match weight:
        case Weight.NONE:
            return torch.ones_like(ratio)
        case Weight.IDENTITY:
            return ratio
        case Weight.TIS:
            return ratio.clamp(max=2.0)
        case Weight.MIS:
            return ratio * _inside(ratio)


def coefficients(weight: Weight, q: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """c [tokens, k] = q f(p/q) − α p, in forms that hold where q underflows.

    Args:
        q: [tokens, k] The sampler's probabilities of its head, 0 where there is no token; not renormalized.
        p: The learner's of the same tokens.
    """
    outside = [(1.0 - mass.sum(dim=1, keepdim=True)).clamp(min=FLOOR) for mass in (q, p)]
    rho = outside[0] / outside[1]
    match weight:
        case Weight.NONE:
            return q - rho * p
        case Weight.IDENTITY:
            return torch.zeros_like(p)
        case Weight.TIS:
            return torch.minimum(p, 2.0 * q) - (2.0 * rho).clamp(max=1.0) * p
        case Weight.MIS:
            return p * ((0.5 * q <= p) & (p <= 5.0 * q)) - p * _inside(1.0 / rho)


def _inside(ratio: torch.Tensor) -> torch.Tensor:
    return (ratio >= 0.5) & (ratio <= 5.0)


@dataclass(frozen=True)
class Objective:
    """A loss for `forward_backward_custom`, and what it saw on the way."""

    kind: Kind
    weight: Weight = Weight.NONE
    """Of the centered loss; the others report the coefficients that it would have had."""

    def __call__(self, data: list[Datum], logprobs: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
        rows = [_Rows.of(*pair) for pair in zip(data, logprobs, strict=True)]
        tokens = _Rows(*(torch.cat(column) for column in zip(*(each.columns for each in rows), strict=True)))
        gap = (tokens.learner - tokens.sampler).detach()
        c = coefficients(self.weight, tokens.q, tokens.p.detach())
        loss = -(tokens.advantages * self._gain(tokens, c)).sum()
        # Every datum takes part in the gradient, one without advantages with zeros: the SDK asks for that.
        return loss + 0.0 * sum(each.sum() for each in logprobs), self._seen(tokens, gap, c)

    def _gain(self, tokens: "_Rows", c: torch.Tensor) -> torch.Tensor:
        """What each token adds to the objective, per unit of its advantage."""
        match self.kind:
            case Kind.IMPORTANCE_SAMPLING:
                return (tokens.learner - tokens.sampler).exp()
            case Kind.POLICY_GRADIENT:
                return tokens.learner
            case Kind.SCORE_CENTERING:
                ratio = (tokens.learner - tokens.sampler).detach().exp()
                return sampled_weight(self.weight, ratio) * tokens.learner - (c * tokens.head).sum(dim=1)

    def _seen(self, tokens: "_Rows", gap: torch.Tensor, c: torch.Tensor) -> dict[str, float]:
        """Means over the tokens with an advantage; none without any."""
        if not gap.numel():
            return {}
        ratio = gap.exp()
        bounds = {Weight.TIS: (0.0, 2.0), Weight.MIS: (0.5, 5.0)}
        low, high = bounds.get(self.weight, (0.0, float("inf")))
        return {
            "trained_tokens": float(gap.numel()),
            "logprob_gap": float(gap.abs().mean()),
            "largest_logprob_gap": float(gap.abs().max()),
            "head_mass_sampler": float(tokens.q.sum(dim=1).mean()),
            "head_mass_learner": float(tokens.p.detach().sum(dim=1).mean()),
            "sum_abs_c": float(c.abs().sum(dim=1).mean()),
            "truncated": float(((ratio < low) | (ratio > high)).double().mean()),
        }


@dataclass(frozen=True)
class _Rows:
    """The tokens with an advantage, in double precision."""

    advantages: torch.Tensor
    """[tokens]"""
    sampler: torch.Tensor
    """[tokens] log q of the sampled token."""
    learner: torch.Tensor
    """[tokens] log p of the same."""
    q: torch.Tensor
    """[tokens, k] Probabilities of the head, 0 where it holds no token."""
    head: torch.Tensor
    """[tokens, k] log p of the head, 0 where it holds no token."""
    p: torch.Tensor
    """[tokens, k] Its probabilities, 0 where it holds no token."""

    @classmethod
    def of(cls, datum: Datum, learner: torch.Tensor) -> "_Rows":
        inputs = {name: torch.from_numpy(values.to_numpy()) for name, values in datum.loss_fn_inputs.items()}
        counted = inputs["advantages"] != 0
        log_q, log_p = inputs["head_logprobs"][counted].double(), learner[counted].double()
        held = log_q > _HELD
        head = torch.where(held, log_p[:, 1:], torch.zeros_like(log_q))
        return cls(
            advantages=inputs["advantages"][counted].double(),
            sampler=inputs["logprobs"][counted].double(),
            learner=log_p[:, 0],
            q=log_q.exp(),
            head=head,
            p=head.exp() * held,
        )

    @property
    def columns(self) -> tuple[torch.Tensor, ...]:
        return self.advantages, self.sampler, self.learner, self.q, self.head, self.p


def head_datum(prompt: Sequence[int], answer: SampledSequence, advantage: float, *, vocabulary: int) -> Datum:
    """One sequence for the losses above: targets [N, 1 + k], the sampled token first and then the sampler's head.

    Tokens of the prompt have an advantage of 0 and repeat their target in the place of a head, so they carry nothing.
    Nor does a place of the head whose id is beyond the vocabulary, as rows that pad a model's output have it: what mass
    it holds belongs to the tail.

    Args:
        vocabulary: Tokens of the tokenizer.

    Raises:
        HarnessError: the answer came without its head, the head contradicts it, or the tokenizer lacks its token.
    """
    if answer.topk_logprobs_np is None or answer.logprobs is None:
        raise HarnessError(
            "The service returned no likeliest tokens beside those that it sampled (topk_sample_logprobs), which every "
            "arm of score centering takes; run it on a service that does."
        )
    tokens = np.array([*prompt, *answer.tokens], dtype=np.int64)
    if tokens.max() >= vocabulary:
        raise HarnessError(
            f"The service sampled the id {tokens.max()}, and the tokenizer's last one is {vocabulary - 1}; a row that "
            "pads the model's output is no token to learn from."
        )
    ids, log_q = answer.topk_logprobs_np.token_ids, answer.topk_logprobs_np.logprobs
    log_q = np.where(ids < vocabulary, log_q, np.float32(EMPTY))
    drawn, begin = np.array(answer.logprobs, dtype=np.float32), len(prompt) - 1
    _refuse_contradictions(tokens[begin + 1 :], drawn, ids, log_q)
    targets = np.repeat(tokens[1:, None], 1 + ids.shape[1], axis=1)
    targets[begin:, 1:] = np.where(log_q > _HELD, ids, targets[begin:, 1:])
    nothing = np.zeros(begin, dtype=np.float32)
    head = np.concatenate([np.full((begin, ids.shape[1]), EMPTY), log_q]).astype(np.float32)
    arrays = {
        "target_tokens": targets,
        "logprobs": np.concatenate([nothing, drawn]),
        "advantages": np.concatenate([nothing, np.full(len(drawn), advantage, dtype=np.float32)]),
        "head_logprobs": head,
    }
    return Datum(
        model_input=ModelInput.from_ints(tokens[:-1].tolist()),
        loss_fn_inputs={name: TensorData.from_numpy(values) for name, values in arrays.items()},
    )


def _refuse_contradictions(
    drawn: NDArray[np.int64],
    logprobs: NDArray[np.float32],
    ids: NDArray[np.int32],
    heads: NDArray[np.float32],
) -> None:
    """A token stands once in a head, and has there the log-probability that it was drawn with."""
    for position, (token, logprob, row, head) in enumerate(zip(drawn, logprobs, ids, heads, strict=True)):
        held = row[head > _HELD]
        if len(set(held.tolist())) < len(held):
            raise HarnessError(f"The sampler's head names a token twice, at position {position} of an answer.")
        [found] = np.nonzero((row == token) & (head > _HELD))
        if found.size and abs(float(head[found[0]]) - float(logprob)) > _AGREEMENT:
            raise HarnessError(
                f"At position {position} of an answer the sampler gives token {token} the log-probability "
                f"{logprob:.6f} as the one it drew and {head[found[0]]:.6f} in its head; both are of one distribution."
            )


def sampled_column(data: Sequence[Datum]) -> list[Datum]:
    """The same sequences as the service's own losses about sampled tokens take them: targets [N], no heads."""
    return [
        Datum(
            model_input=datum.model_input,
            loss_fn_inputs={
                "target_tokens": TensorData.from_numpy(datum.loss_fn_inputs["target_tokens"].to_numpy()[:, 0].copy()),
                "logprobs": datum.loss_fn_inputs["logprobs"],
                "advantages": datum.loss_fn_inputs["advantages"],
            },
        )
        for datum in data
    ]
