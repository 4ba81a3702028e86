"""What an optimizer family is: its hyperparameters, and the function that applies one step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from spindle.backends.contract import LARGEST
from spindle.backends.lora import Adapter

Value = float | str


@dataclass(frozen=True)
class Hyperparameter:
    """A number within a range, or one of some choices."""

    name: str
    default: Value
    below: float = LARGEST
    """Numbers are at least 0 and below this."""
    choices: tuple[Value, ...] = ()
    """Where there are any, the value is one of them."""
    fixed: bool = False
    """Whether it is chosen when a model is created and never after; others may change from step to step."""

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return f"one of {', '.join(str(choice) for choice in self.choices)}"
        return f"at least 0 and below {self.below:g}"

    def allows(self, value: Value) -> bool:
        if self.choices:
            return value in self.choices
        return not isinstance(value, str) and 0 <= value < self.below


LEARNING_RATE = "learning_rate"
GRAD_CLIP_NORM = Hyperparameter("grad_clip_norm", 0.0)
"""The largest norm of the whole gradient, 0 for no limit; gradients are clipped before a family sees them."""


@dataclass(frozen=True)
class Update:
    """One step of one model, as a family sees it."""

    adapter: Adapter
    """The parameters, to be changed in place: `adapter.parameters()` by name, `adapter.pairs` by place."""
    gradient: Mapping[str, Tensor]
    """Of every parameter, by its name; already clipped."""
    state: dict[str, Tensor]
    """What the family remembers, empty before the first step; tensors of any type and shape."""
    values: Mapping[str, Value]
    """Every hyperparameter of the family."""
    number: int
    """1 for the first step."""

    def value(self, name: str) -> float:
        """A hyperparameter that is a number."""
        return float(self.values[name])

    def remembered(self, name: str, like: Tensor) -> Tensor:
        """The tensor of this name in the state, zeros shaped like `like` before the first step."""
        if name not in self.state:
            self.state[name] = like.new_zeros(like.shape)
        return self.state[name]


@dataclass(frozen=True)
class Family:
    """An optimizer that models may be created with."""

    name: str
    hyperparameters: tuple[Hyperparameter, ...]
    step: Callable[[Update], Mapping[str, float]]
    """Change the parameters and the state in place; returns measurements of its own for the step's metrics, if any.
    Runs without autograd."""
    plugin_sha256: str | None = None
    """Hash of the plugin file it comes from; None for a built-in family."""

    def find(self, name: str) -> Hyperparameter | None:
        return next((known for known in self.hyperparameters if known.name == name), None)

    @property
    def known(self) -> str:
        """The names of its hyperparameters, in words."""
        return ", ".join(hyperparameter.name for hyperparameter in self.hyperparameters)
