"""The losses on offer, each a sum over tokens (never a mean), the checks of their inputs, and their evaluation.

A `TokenLoss` is computed block by block while logits are at hand; a `DatumLoss` couples the tokens of a datum and needs
all of its logprobs first. `choose` turns a request's name and settings into one of them.
"""

from spindle.backends.losses.checks import TARGETS, check, check_tokens
from spindle.backends.losses.choice import Chosen, choose
from spindle.backends.losses.kinds import Config, DatumLoss, Inputs, Loss, TokenLoss
from spindle.backends.losses.metrics import measured, reduced
from spindle.backends.losses.registry import LOSSES, UNPUBLISHED_LOSSES
from spindle.backends.losses.whole import Slopes, slopes

__all__ = [
    "LOSSES",
    "TARGETS",
    "UNPUBLISHED_LOSSES",
    "Chosen",
    "Config",
    "DatumLoss",
    "Inputs",
    "Loss",
    "Slopes",
    "TokenLoss",
    "check",
    "check_tokens",
    "choose",
    "measured",
    "reduced",
    "slopes",
]
