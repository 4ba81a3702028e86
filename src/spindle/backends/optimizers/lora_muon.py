"""LoRA-Muon: spectral steepest descent on the product B A (Cesista et al. 2026, arXiv 2606.12921).

With S_A = A A^T and S_B = B^T B, both [r, r], and the budget lr split evenly between the two factors,

    B <- (1 - lr wd) B - lr/2 msign(M_B S_A^-1/2) S_A^-1/2
    A <- (1 - lr wd) A - lr/2 S_B^-1/2 msign(S_B^-1/2 M_A)

so that the first-order change of B A has a spectral norm of about lr, however the product is split into its factors.
The structure is that of the paper's public summary; its constants were derived anew from that property. M are momenta
as in `muon`. S is damped to S + damping I, because B = 0 in a new adapter: its first step moves B alone, as the
gradient of A is then exactly zero, and in the next ones damping keeps A from moving by lr/2 over a B that is still
nearly zero.
"""

import torch
from torch import Tensor

from spindle.backends.contract import UserError
from spindle.backends.optimizers.kinds import LEARNING_RATE, Update
from spindle.backends.optimizers.muon import momentum, msign


def step(update: Update) -> dict[str, float]:
    """One step; the state holds `momentum.NAME` of every parameter. Raises `UserError` for weights not finite."""
    learning_rate = update.value(LEARNING_RATE)
    damping = update.value("damping")
    keep = 1 - learning_rate * update.value("weight_decay")
    roots = {
        path: (_inverse_root(pair.a @ pair.a.T, damping), _inverse_root(pair.b.T @ pair.b, damping))
        for path, pair in update.adapter.pairs.items()
    }
    for path, pair in update.adapter.pairs.items():
        root_a, root_b = roots[path]
        change_b = msign(momentum(update, f"{path}.lora_B.weight") @ root_a) @ root_a
        change_a = root_b @ msign(root_b @ momentum(update, f"{path}.lora_A.weight"))
        pair.b.mul_(keep).sub_(change_b, alpha=learning_rate / 2)
        pair.a.mul_(keep).sub_(change_a, alpha=learning_rate / 2)
    return {}


def _inverse_root(gram: Tensor, damping: float) -> Tensor:
    """(gram + damping I)^-1/2 of a symmetric matrix, zero along directions where that does not exist."""
    if not gram.isfinite().all():
        raise UserError("the weights have diverged; go back to an earlier checkpoint and lower the learning rate.")
    values, vectors = torch.linalg.eigh(gram.double())
    values = values.clamp(min=0) + damping
    roots = torch.where(values > 0, values.rsqrt(), torch.zeros_like(values))
    inverse: Tensor = (vectors * roots) @ vectors.T
    return inverse.to(gram.dtype)
