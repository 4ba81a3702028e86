"""What a plugin file builds its losses and optimizers from.

A plugin is one Python file named in the server's configuration. It defines `LOSSES`, a list of `TokenLoss` and
`DatumLoss`, or `OPTIMIZERS`, a list of `Family`, or both. These names are stable.
"""

from spindle.backends.contract import UserError
from spindle.backends.losses.kinds import DatumLoss, TokenLoss
from spindle.backends.optimizers.kinds import GRAD_CLIP_NORM, Family, Hyperparameter, Update

__all__ = ["GRAD_CLIP_NORM", "DatumLoss", "Family", "Hyperparameter", "TokenLoss", "Update", "UserError"]
