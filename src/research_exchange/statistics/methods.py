"""The registry of decision methods: a method's name is part of the immutable spec, and it alone decides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from research_exchange.statistics.contrasts import Range
from research_exchange.statistics.hoeffding import paired_hoeffding
from research_exchange.statistics.intervals import Interval

__all__ = ["METHODS", "UNITS", "Method"]

UNITS: Mapping[str, str] = {
    "fixed_checkpoint_items": "It speaks about these checkpoints on items like these, and says nothing about another "
    "training seed.",
}
"""The values of `decision_rule.unit`, each with what a conclusion over it means, for a reader."""


@dataclass(frozen=True)
class Method:
    """What a method asks of the data, and how it makes an interval."""

    requirements: str
    """One sentence for people who write a spec."""
    units: tuple[str, ...]
    """The values of `decision_rule.unit` it is valid for."""
    interval: Callable[[Sequence[float], Range, float], Interval]
    """From contrasts, their range and α."""


METHODS: Mapping[str, Method] = {
    "paired_hoeffding": Method(
        requirements="Independent items and explicit bounds; holds for every n and every distribution.",
        units=("fixed_checkpoint_items",),
        interval=paired_hoeffding,
    ),
}
