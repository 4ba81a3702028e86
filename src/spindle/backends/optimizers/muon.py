"""Muon on each LoRA factor: momentum made orthogonal (Jordan et al. 2024, kellerjordan.github.io/posts/muon).

    M <- mu M + G
    W <- (1 - lr wd) W - lr s msign(M)          with Nesterov momentum: msign(G + mu M)

All parameters of an adapter are matrices, so none is left to another rule. While B = 0 the gradient of A is exactly
zero, and msign(0) = 0: the first step moves B alone.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from spindle.backends.optimizers.kinds import LEARNING_RATE, Update

_A, _B, _C = 3.4445, -4.7750, 2.0315
_STEPS = 5
_TINY = 1e-7

SCALES: dict[str, Callable[[int, int], float]] = {
    "keller": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "moonlight": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}
"""The factor s of a [rows, columns] matrix: Jordan's, and that of Moonlight (arXiv 2502.16982), which gives updates
the size of AdamW's."""


def step(update: Update) -> dict[str, float]:
    """One step; the state holds `momentum.NAME` of every parameter."""
    learning_rate = update.value(LEARNING_RATE)
    scale = SCALES[str(update.values["scale"])]
    for name, parameter in update.adapter.parameters().items():
        direction = msign(momentum(update, name))
        parameter.mul_(1 - learning_rate * update.value("weight_decay"))
        parameter.sub_(direction, alpha=learning_rate * scale(*parameter.shape))
    return {}


def momentum(update: Update, name: str) -> Tensor:
    """Add a parameter's gradient to its momentum; what the step then goes along."""
    gradient = update.gradient[name]
    mu = update.value("momentum")
    total = update.remembered(f"momentum.{name}", gradient).mul_(mu).add_(gradient)
    return gradient + mu * total if update.values["nesterov"] else total


def msign(matrix: Tensor) -> Tensor:
    """About U V^T of the matrix U S V^T, by five quintic Newton-Schulz steps from unit Frobenius norm.

    The singular values of the result lie around 1, between about 0.7 and 1.2; zero stays zero. Each step multiplies by
    a polynomial of X X^T, so all of them are done on that [r, r] matrix, in float64, and X is multiplied once.
    """
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    precise = wide.double()
    gram = precise @ precise.T
    norm = gram.trace().sqrt().clamp(min=_TINY)
    gram = gram / norm**2
    identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    product = identity / norm
    for _ in range(_STEPS):
        polynomial = _A * identity + _B * gram + _C * gram @ gram
        product = polynomial @ product
        gram = polynomial @ gram @ polynomial
    found: Tensor = product.to(matrix.dtype) @ wide
    return found.T if matrix.shape[0] > matrix.shape[1] else found
