"""AdamW as in torch.optim.AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101, algorithm 2)."""

import torch
from torch.optim.adamw import adamw

from spindle.backends.optimizers.kinds import LEARNING_RATE, Update


def step(update: Update) -> dict[str, float]:
    """One step; the state holds `exp_avg.NAME` and `exp_avg_sq.NAME` of every parameter."""
    parameters = update.adapter.parameters()
    adamw(
        list(parameters.values()),
        [update.gradient[name] for name in parameters],
        [update.remembered(f"exp_avg.{name}", parameter) for name, parameter in parameters.items()],
        [update.remembered(f"exp_avg_sq.{name}", parameter) for name, parameter in parameters.items()],
        [],
        [torch.full((), update.number - 1.0, device=parameter.device) for parameter in parameters.values()],
        fused=True,
        amsgrad=False,
        beta1=update.value("beta1"),
        beta2=update.value("beta2"),
        lr=update.value(LEARNING_RATE),
        weight_decay=update.value("weight_decay"),
        eps=update.value("eps"),
        maximize=False,
    )
    return {}
