"""The formulas of the built-in losses, as Tinker documents them.

Notation per token: lp = log p(target) under the model, q = the sampler's logprob, A = advantage, r = exp(lp - q);
sg[x] is x without a gradient. Thresholds bound the ratio itself (0.8), not its distance from 1.
"""

import torch
from torch import Tensor

from spindle.backends.losses.kinds import Config, Inputs

LOW, HIGH = "clip_low_threshold", "clip_high_threshold"


def cross_entropy(logprobs: Tensor, inputs: Inputs, _: Config) -> Tensor:
    """-w lp"""
    return -inputs["weights"] * logprobs


def importance_sampling(logprobs: Tensor, inputs: Inputs, _: Config) -> Tensor:
    """-r A, the ratio differentiated and not clipped"""
    return -_ratio(logprobs, inputs) * inputs["advantages"]


def ppo(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-min(r A, clamp(r) A) (Schulman et al. 2017, arXiv 1707.06347, eq. 7)"""
    return -_pessimistic(_ratio(logprobs, inputs), inputs["advantages"], config)


def cispo(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-sg[clamp(r)] A lp (MiniMax-M1, arXiv 2506.13585, eq. 4)"""
    return -_clamped(_ratio(logprobs.detach(), inputs), config) * inputs["advantages"] * logprobs


def dro(logprobs: Tensor, inputs: Inputs, config: Config) -> Tensor:
    """-(A lp - beta/2 (lp - q)^2) (Richemond et al. 2024, arXiv 2405.19107)"""
    return -(inputs["advantages"] * logprobs - 0.5 * config["beta"] * (logprobs - inputs["logprobs"]) ** 2)


def gspo(logprobs: Tensor, inputs: Inputs, config: Config) -> tuple[Tensor, dict[str, float]]:
    """The sum of -min(r A, clamp(r) A), where r = s exp(lp - sg[lp]) and s = exp(mean of sg[lp] - q over the mask).

    GSPO-token of Zheng et al. 2025 (arXiv 2507.18071, eq. 14); the mask may hold weights, and an empty one gives s = 1.
    """
    detached = logprobs.detach()
    mask = inputs["sequence_ratio_mask"]
    mean = ((detached - inputs["logprobs"]) * mask).sum() / mask.sum().clamp(min=torch.finfo(mask.dtype).tiny)
    ratio = mean.exp() * torch.exp(logprobs - detached)
    advantages = inputs["advantages"]
    loss = -_pessimistic(ratio, advantages, config).sum()
    return loss, _about(detached, inputs) | _count_clipped(ratio.detach(), advantages, config)


def ratio_metrics(logprobs: Tensor, inputs: Inputs, _: Config) -> dict[str, float]:
    """`trained_tokens:sum` (advantage not zero) and, over these, `log_ratio:sum` of lp - q."""
    return _about(logprobs, inputs)


def ppo_metrics(logprobs: Tensor, inputs: Inputs, config: Config) -> dict[str, float]:
    """Those of `ratio_metrics`, and `clipped_tokens:sum`: tokens whose gradient the clipping took away."""
    return _about(logprobs, inputs) | _count_clipped(_ratio(logprobs, inputs), inputs["advantages"], config)


def cispo_metrics(logprobs: Tensor, inputs: Inputs, config: Config) -> dict[str, float]:
    """Those of `ratio_metrics`, and `clipped_tokens:sum`: trained tokens whose ratio was outside the thresholds."""
    ratio = _ratio(logprobs, inputs)
    clipped = (ratio != _clamped(ratio, config)) & (inputs["advantages"] != 0)
    return _about(logprobs, inputs) | {"clipped_tokens:sum": float(clipped.sum())}


def _ratio(logprobs: Tensor, inputs: Inputs) -> Tensor:
    return torch.exp(logprobs - inputs["logprobs"])


def _clamped(ratio: Tensor, config: Config) -> Tensor:
    return ratio.clamp(config[LOW], config[HIGH])


def _pessimistic(ratio: Tensor, advantages: Tensor, config: Config) -> Tensor:
    return torch.minimum(ratio * advantages, _clamped(ratio, config) * advantages)


def _count_clipped(ratio: Tensor, advantages: Tensor, config: Config) -> dict[str, float]:
    clipped = _clamped(ratio, config) * advantages < ratio * advantages
    return {"clipped_tokens:sum": float(clipped.sum())}


def _about(logprobs: Tensor, inputs: Inputs) -> dict[str, float]:
    trained = inputs["advantages"] != 0
    log_ratio = (logprobs - inputs["logprobs"])[trained].sum(dtype=torch.float64)
    return {"trained_tokens:sum": float(trained.sum()), "log_ratio:sum": float(log_ratio)}
