"""From intervals to a verdict: the tables of decision-statistics.md §4, and several criteria at once (§9)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from research_exchange.documents.decision_rule import Band, DecisionRule, Multiplicity
from research_exchange.documents.run_state import OutcomeReason, Verdict
from research_exchange.statistics import METHODS, Interval, Sample

__all__ = ["CriterionState", "Outcome", "Reached", "intervals_of", "outcome_of", "state_of"]


class CriterionState(StrEnum):
    """Where an interval lies against its margin; every comparison is strict."""

    PASS = "pass"
    """Its lower end is above the margin."""
    FAIL = "fail"
    """Its upper end is below the margin."""
    TIE = "tie"
    """It lies inside the spec's tie band."""
    UNSETTLED = "unsettled"
    """It reaches over the margin."""


@dataclass(frozen=True)
class Reached:
    """A criterion's interval and what it says."""

    interval: Interval
    alpha: float
    """The error probability of this interval; below the rule's where its multiplicity asks for it."""
    state: CriterionState


@dataclass(frozen=True)
class Outcome:
    """What the criteria say together."""

    verdict: Verdict
    reason: OutcomeReason


def state_of(lower: float, upper: float, margin: float, tie_band: Band | None) -> CriterionState:
    """Where an interval lies: strict comparisons, no rounding; passing goes before tying."""
    if lower > margin:
        return CriterionState.PASS
    if upper < margin:
        return CriterionState.FAIL
    if tie_band is not None and tie_band.low <= lower and upper <= tie_band.high:
        return CriterionState.TIE
    return CriterionState.UNSETTLED


def intervals_of(rule: DecisionRule, samples: Sequence[Sample]) -> tuple[Reached, ...]:
    """One interval per criterion, at the level that the rule's multiplicity gives it.

    Args:
        rule: A rule without problems.
        samples: One per criterion, in the rule's order.
    """
    everything = range(len(samples))
    if rule.multiplicity is Multiplicity.HOLM:
        reached = _step_down(rule, samples)
    else:
        shares = len(samples) if rule.multiplicity is Multiplicity.BONFERRONI else 1
        reached = {index: _reach(rule, samples, index, rule.alpha / shares) for index in everything}
    return tuple(reached[index] for index in everything)


def outcome_of(states: Sequence[CriterionState]) -> Outcome:
    """The run-level table of decision-statistics.md §4; the first criterion is the primary one.

    Every claim needs all criteria to agree, so no correction for their number is needed (Berger 1982).
    """
    seen = set(states)
    if seen == {CriterionState.PASS}:
        return Outcome(Verdict.SUPPORTED, OutcomeReason.SUPPORTED)
    if seen == {CriterionState.FAIL}:
        return Outcome(Verdict.REFUTED, OutcomeReason.REFUTED)
    if CriterionState.UNSETTLED in seen:
        return Outcome(Verdict.INCONCLUSIVE, OutcomeReason.INSUFFICIENT_EVIDENCE)
    if states[0] is CriterionState.TIE:
        return Outcome(Verdict.INCONCLUSIVE, OutcomeReason.TIE)
    return Outcome(Verdict.INCONCLUSIVE, OutcomeReason.MIXED_CRITERIA)


def _step_down(rule: DecisionRule, samples: Sequence[Sample]) -> dict[int, Reached]:
    """Holm by intervals: α over the number still open, until a step settles no further margin."""
    settled: dict[int, Reached] = {}
    still_open = list(range(len(samples)))
    while still_open:
        alpha = rule.alpha / len(still_open)
        step = {index: _reach(rule, samples, index, alpha) for index in still_open}
        decided = [i for i, reached in step.items() if reached.state in (CriterionState.PASS, CriterionState.FAIL)]
        settled |= {index: step[index] for index in decided} if decided else step
        still_open = [index for index in still_open if index not in settled]
    return settled


def _reach(rule: DecisionRule, samples: Sequence[Sample], index: int, alpha: float) -> Reached:
    criterion = rule.criteria[index]
    interval = METHODS[rule.method].interval(samples[index], alpha)
    state = state_of(interval.lower, interval.upper, criterion.margin, criterion.tie_band)
    return Reached(interval, alpha, state)
