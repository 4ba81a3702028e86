"""Optimizers of adapters: families by name, the checks of their hyperparameters, and the optimizer of one model.

A `Family` is a list of hyperparameters and one function that applies a step; what it remembers between steps is a
dictionary of tensors, which is saved and restored as it stands. Clipping and the norm of the gradient are the same for
all families, and done here.
"""

from spindle.backends.optimizers.checks import applied, check_restorable, settled
from spindle.backends.optimizers.kinds import GRAD_CLIP_NORM, Family, Hyperparameter, Update
from spindle.backends.optimizers.optimizer import Optimizer
from spindle.backends.optimizers.registry import FAMILIES, UNPUBLISHED_FAMILIES

__all__ = [
    "FAMILIES",
    "GRAD_CLIP_NORM",
    "UNPUBLISHED_FAMILIES",
    "Family",
    "Hyperparameter",
    "Optimizer",
    "Update",
    "applied",
    "check_restorable",
    "settled",
]
