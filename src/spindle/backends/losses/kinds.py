"""What a loss is: the inputs and settings it takes, and its formula."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from spindle.backends.contract import Datum

Inputs = Mapping[str, Tensor]
Config = Mapping[str, float]
"""Every setting of a loss, the defaults included."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What every loss says about itself; a concrete one is a `TokenLoss` or a `DatumLoss`."""

    name: str
    inputs: tuple[str, ...]
    """Float inputs beside the targets, shaped like them."""
    defaults: Config = field(default_factory=dict)
    """What `loss_fn_config` may set, with the values it has otherwise."""
    several_targets: bool = False
    """Whether targets may be [N, K]: K per position."""


@dataclass(frozen=True, kw_only=True)
class TokenLoss(Loss):
    """A sum of terms that each depend on one target alone."""

    terms: Callable[[Tensor, Inputs, Config], Tensor]
    """Logprobs [n, K] and inputs [n, K] to the loss of each, [n, K]; differentiable in the logprobs."""
    metrics: Callable[[Tensor, Inputs, Config], dict[str, float]] | None = None
    """From the logprobs of one datum (as for `DatumLoss.datum`) to metrics about its tokens."""


@dataclass(frozen=True, kw_only=True)
class DatumLoss(Loss):
    """A loss that couples the tokens of one datum; the losses of data are added."""

    datum: Callable[[Tensor, Inputs, Config], tuple[Tensor, dict[str, float]]]
    """Logprobs and inputs of one datum, shaped like its targets ([N] or [N, K]), to its scalar loss, differentiable in
    the logprobs, and its metrics `name:sum|mean|min|max`, which are reduced over the data."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """Further inputs of any shape, by the number of their dimensions."""


def tensors(datum: Datum, names: tuple[str, ...], like: Tensor) -> dict[str, Tensor]:
    """Float inputs of a datum, of the type and on the device of its logprobs."""
    return {name: torch.as_tensor(datum.loss_inputs[name]).to(like) for name in names}
