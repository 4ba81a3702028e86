"""A plugin for tests and docs: simple examples, not methods from any paper."""

from collections.abc import Mapping

from torch import Tensor

from spindle.plugins import GRAD_CLIP_NORM, Family, Hyperparameter, TokenLoss, Update


def _squared(logprobs: Tensor, inputs: Mapping[str, Tensor], config: Mapping[str, float]) -> Tensor:
    """w (lp - target)^2 for each token"""
    return inputs["weights"] * (logprobs - config["target"]) ** 2


def _sign_step(update: Update) -> dict[str, float]:
    """Every number moves by the learning rate against the sign of its averaged gradient."""
    for name, parameter in update.adapter.parameters().items():
        average = update.remembered(f"average.{name}", parameter)
        average.lerp_(update.gradient[name], 1 - update.value("memory"))
        parameter.sub_(average.sign(), alpha=update.value("learning_rate"))
    return {"steps_seen": float(update.number)}


LOSSES = [TokenLoss(name="example_squared", inputs=("weights",), defaults={"target": 0.0}, terms=_squared)]
OPTIMIZERS = [
    Family(
        "example_sign",
        (Hyperparameter("learning_rate", 1e-3), Hyperparameter("memory", 0.9, below=1), GRAD_CLIP_NORM),
        _sign_step,
    )
]
