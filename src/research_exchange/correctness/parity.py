"""How far a new implementation is from its reference, in the numbers that a report states (R-104, R-107)."""

import math
import sys
from collections.abc import Mapping, Sequence
from operator import mul, sub
from typing import Protocol, TypeAlias, TypedDict, runtime_checkable

__all__ = ["Numbers", "ParityErrors", "lr_scaling_error", "parity_errors"]


@runtime_checkable
class Array(Protocol):
    """An array or tensor of any library."""

    def tolist(self) -> object:
        """Its numbers as nested lists, or as one number."""


Numbers: TypeAlias = "float | Array | Sequence[Numbers]"
"""One number, numbers in sequences of any depth, or an array or tensor of them."""


class ParityErrors(TypedDict):
    """The entry of one comparison in a report."""

    max_abs_error: float
    """max |actual - reference|."""
    reference_max_abs: float
    """max |reference|."""
    relative_l2_error: float | None
    """‖actual - reference‖ / ‖reference‖; None where the reference is 0 and the actual result is not."""
    cosine_similarity: float | None
    """In [-1, 1]; None where one side is 0 and has no direction."""


def parity_errors(actual: Numbers, reference: Numbers) -> ParityErrors:
    """The four errors of one comparison, ready to be reported.

    Args:
        actual: What the new path computed: a loss, or a whole gradient or update, all its numbers in a fixed order.
        reference: What it should have computed, in the same order.

    Raises:
        ValueError: if there are no numbers, not equally many, one that is not finite, or something that is none.
    """
    ours, theirs = _flat(actual), _flat(reference)
    if len(ours) != len(theirs) or not ours:
        raise ValueError(f"Compare equally many numbers, at least one; found {len(ours)} and {len(theirs)}.")
    distance, length = math.dist(ours, theirs), math.hypot(*theirs)
    relative = distance / length if length else None if distance else 0.0
    if not all(map(math.isfinite, (distance, length, relative or 0.0))):
        raise ValueError("The numbers are too far apart to be compared in double precision.")
    return ParityErrors(
        max_abs_error=max(map(abs, map(sub, ours, theirs))),
        reference_max_abs=max(map(abs, theirs)),
        relative_l2_error=relative,
        cosine_similarity=_cosine(ours, theirs),
    )


def lr_scaling_error(probes: Sequence[Mapping[str, float] | tuple[float, float]]) -> float:
    """The largest relative change of update norm / learning rate against the first probe.

    Args:
        probes: `{"learning_rate": ..., "update_norm": ...}` or (learning rate, norm of the update), each measured
            from the same state.

    Raises:
        ValueError: for fewer than two probes, equal learning rates, or a number that is not finite and above 0.
    """
    pairs = [(p["learning_rate"], p["update_norm"]) if isinstance(p, Mapping) else p for p in probes]
    if len(pairs) < 2 or len({rate for rate, _ in pairs}) < len(pairs):
        raise ValueError(f"Probe at least two different learning rates, each once; found {len(pairs)} probes.")
    if not all(math.isfinite(number) and number > 0 for pair in pairs for number in pair):
        raise ValueError("A learning rate and the norm of an update are finite and above 0.")
    first, *others = (norm / rate for rate, norm in pairs)
    if first == 0 or not all(map(math.isfinite, (first, *others))):
        raise ValueError("Norm / learning rate is beyond double precision.")
    return max(abs(ratio / first - 1) for ratio in others)


def _flat(values: object) -> list[float]:
    """All numbers, depth first."""
    found: list[float] = []
    pending = [values]
    while pending:
        value = pending.pop()
        if isinstance(value, (float, int)) and not isinstance(value, bool):
            found.append(value)
        elif isinstance(value, Array):
            pending.append(value.tolist())
        elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            pending.extend(reversed(value))
        else:
            raise ValueError(f"Compare numbers; found {type(value).__name__}.")
    if not all(abs(value) <= sys.float_info.max for value in found):
        raise ValueError("Compare finite numbers; found NaN, an infinity or a whole number beyond double precision.")
    return list(map(float, found))


def _cosine(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    ours, theirs = _scaled(ours), _scaled(theirs)
    lengths = math.hypot(*ours) * math.hypot(*theirs)
    return max(-1.0, min(1.0, math.fsum(map(mul, ours, theirs)) / lengths)) if lengths else None


def _scaled(values: Sequence[float]) -> list[float]:
    """The same direction with a largest number near 1, so that no product is lost: a power of two rounds nothing."""
    _, exponent = math.frexp(max(map(abs, values)))
    return [math.ldexp(value, -exponent) for value in values]
