"""What a run reports of its arms, each number with where it comes from (R-065, R-215)."""

from collections.abc import Sequence
from dataclasses import dataclass

from research_exchange.decision import Decision
from research_exchange.documents.evaluation import SCORE_TOLERANCE
from research_exchange.documents.fields import show
from research_exchange.documents.gates import Flag, Provenance
from research_exchange.documents.receipts import Receipt, is_attested
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import BASE_ARM, Spec

__all__ = ["ReportedNumber", "reported_flags", "reported_numbers"]

MAX_METRICS = 20
"""Compared metrics that are listed; no run compares more."""


@dataclass(frozen=True)
class ReportedNumber:
    """The newest value of a compared metric for one arm."""

    path: str
    """In the words of the updates: `metrics.arms.trained.accuracy`."""
    value: int | float
    update: int
    provenance: Provenance
    recomputed: float | None
    """The mean that the decision was recomputed with; None where there is none."""


def reported_numbers(
    spec: Spec, state: RunState, decision: Decision | None, receipts: Sequence[Receipt]
) -> tuple[ReportedNumber, ...]:
    """Every arm of the spec, and the base model, on every metric that is compared."""
    means = _means(decision)
    metrics = tuple(dict.fromkeys(metric for metric, _ in means)) or _compared(state)
    numbers = []
    for arm in dict.fromkeys((*spec.arm_names, BASE_ARM)):
        for metric in metrics:
            history = state.arms.get(arm, {}).get(metric)
            if history is not None:
                path, value, mean = f"metrics.arms.{arm}.{metric}", history.latest.value, means.get((metric, arm))
                provenance = Provenance.DECLARED
                if mean is not None and abs(value - mean) <= SCORE_TOLERANCE:
                    provenance = Provenance.RECOMPUTED
                elif is_attested(path, value, receipts):
                    provenance = Provenance.ATTESTED
                numbers.append(ReportedNumber(path, value, history.latest.update, provenance, mean))
    return tuple(numbers)


def reported_flags(numbers: Sequence[ReportedNumber]) -> tuple[Flag, ...]:
    """Numbers that a reader sees and the rows do not bear out; the verdict rests on the rows (R-068)."""
    return tuple(
        Flag(
            "R-068",
            number.update,
            f"reports {number.path} = {show(number.value)}; its rows have {number.recomputed!r}.",
        )
        for number in numbers
        if number.recomputed is not None and number.provenance is not Provenance.RECOMPUTED
    )


def _means(decision: Decision | None) -> dict[tuple[str, str], float]:
    criteria = () if decision is None else decision.criteria
    return {(criterion.metric, arm): mean for criterion in criteria for arm, mean in criterion.means.items()}


def _compared(state: RunState) -> tuple[str, ...]:
    return tuple(dict.fromkeys(comparison.metric for comparison in state.evaluation.comparisons))[:MAX_METRICS]
