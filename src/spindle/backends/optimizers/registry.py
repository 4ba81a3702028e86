"""The built-in optimizer families by name."""

from spindle.backends.optimizers import adamw, lora_muon, muon
from spindle.backends.optimizers.kinds import GRAD_CLIP_NORM, LEARNING_RATE, Family, Hyperparameter

_WEIGHT_DECAY = Hyperparameter("weight_decay", 0.0)
_MOMENTUM = Hyperparameter("momentum", 0.95, below=1)
_NESTEROV = Hyperparameter("nesterov", 1.0, choices=(0.0, 1.0), fixed=True)

ADAMW = Family(
    "adamw",
    (
        Hyperparameter(LEARNING_RATE, 1e-4),
        Hyperparameter("beta1", 0.9, below=1),
        Hyperparameter("beta2", 0.95, below=1),
        Hyperparameter("eps", 1e-12),
        _WEIGHT_DECAY,
        GRAD_CLIP_NORM,
    ),
    adamw.step,
)
"""Its names are those of the client's AdamParams, which may be sent to any family."""

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        ADAMW,
        Family(
            "muon",
            (
                Hyperparameter(LEARNING_RATE, 1e-3),
                _MOMENTUM,
                _WEIGHT_DECAY,
                GRAD_CLIP_NORM,
                _NESTEROV,
                Hyperparameter("scale", "keller", choices=tuple(muon.SCALES), fixed=True),
            ),
            muon.step,
        ),
        Family(
            "lora_muon",
            (
                Hyperparameter(LEARNING_RATE, 1e-3),
                _MOMENTUM,
                Hyperparameter("damping", 1e-4),
                _WEIGHT_DECAY,
                GRAD_CLIP_NORM,
                _NESTEROV,
            ),
            lora_muon.step,
        ),
    )
}

UNPUBLISHED_FAMILIES = {"dimuon": "its update rule is not published"}
"""Families of the Tinker client that cannot be offered, and why."""
