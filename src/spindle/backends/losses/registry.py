"""The built-in losses by name, and their formulas.

Notation per token: lp = log p(target) under the model, q = the sampler's logprob, A = advantage, r = exp(lp - q).
"""

import torch
from torch import Tensor

from spindle.backends.losses.kinds import Config, Inputs, Loss, TokenLoss


def _cross_entropy(logprobs: Tensor, inputs: Inputs, _: Config) -> Tensor:
    """-w lp"""
    return -inputs["weights"] * logprobs


def _importance_sampling(logprobs: Tensor, inputs: Inputs, _: Config) -> Tensor:
    """-r A, the ratio differentiated and not clipped"""
    return -torch.exp(logprobs - inputs["logprobs"]) * inputs["advantages"]


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        TokenLoss(name="cross_entropy", inputs=("weights",), several_targets=True, terms=_cross_entropy),
        TokenLoss(name="importance_sampling", inputs=("logprobs", "advantages"), terms=_importance_sampling),
    )
}
