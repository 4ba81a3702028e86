"""Whether two runs say the same: of one spec version, whether its result came out again (R-006).

Rows are never merged: each run has its own verdict, from its own rows, and stands beside the other. Runs of different
specs are shown with what the specs differ in, and their verdicts are not held against each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from research_exchange.decision import CriterionResult, CriterionState, Decision
from research_exchange.decision_grid import Grid
from research_exchange.documents.differences import Change, spec_diff
from research_exchange.documents.fields import as_mapping
from research_exchange.documents.json import JsonValue, canonical
from research_exchange.documents.plain import plain
from research_exchange.documents.run_state import OutcomeReason, RunState, Verdict
from research_exchange.documents.spec import Spec
from research_exchange.judgment import Judgment
from research_exchange.outcome import Basis

__all__ = ["Agreement", "ArmValues", "CriterionPair", "ItemCounts", "Rows", "Side", "Standing", "agree"]

_SCIENCE = frozenset({Basis.AGREED, Basis.REPORTED, Basis.DECISION})
"""What a verdict has to rest on before another run can confirm or contradict it."""


@dataclass(frozen=True)
class Side:
    """One of two runs, with a judgment that was just made: a stored one has lost the values of single items."""

    run: str
    spec: Spec
    state: RunState
    judgment: Judgment


class Standing(StrEnum):
    """How two runs stand to each other."""

    AGREE = "agree"
    """The same recorded verdict, for the same reason, and every criterion in the same state."""
    DISAGREE = "disagree"
    UNDECIDED = "undecided"
    """A verdict is missing, or rests on something else than the science: there is nothing to confirm."""
    OTHER_SPEC = "other_spec"
    """They execute different specs, so neither can confirm or contradict the other."""


class Rows(StrEnum):
    """How the rows that two decisions were recomputed from compare."""

    SAME_BYTES = "same_bytes"
    SAME_VALUES = "same_values"
    """Written otherwise, and every value equal."""
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """One of the decisions could not be recomputed, so there are no rows to compare."""


@dataclass(frozen=True)
class RunVerdict:
    """What is recorded of one run."""

    run: str
    spec_sha256: str
    verdict: Verdict | None
    """None while it goes on."""
    reason: OutcomeReason | None
    basis: Basis | None
    withheld: bool


@dataclass(frozen=True)
class Estimate:
    """A criterion as one run has it, in the metric's units."""

    effect: float
    lower: float
    upper: float
    n: int
    state: CriterionState


@dataclass(frozen=True)
class CriterionPair:
    """A criterion in both runs."""

    id: str
    metric: str
    margin: int | float
    first: Estimate
    second: Estimate
    difference: float
    """Effect of the second minus that of the first."""
    same_state: bool
    second_in_first: bool
    """Whether the second effect lies in the first interval; a fact for a reader, not a test."""


@dataclass(frozen=True)
class ArmValues:
    """A metric of an arm in both runs, in its own units: means over the rows, or as reported where there are none."""

    arm: str
    metric: str
    first: float | None
    second: float | None
    difference: float | None
    """Second minus first; None where one is missing."""


@dataclass(frozen=True)
class ItemCounts:
    """The values of single items of an arm, at equal seeds: how many came out again.

    `higher` and `lower` are the discordant counts, as McNemar's test has them, of the two runs of one arm.
    """

    arm: str
    metric: str
    compared: int
    """Items times seeds that both runs have."""
    equal: int
    higher: int
    """Where the second run has more."""
    lower: int
    """Where the second run has less."""
    first_only: int
    """That only the first run has."""
    second_only: int
    same_evaluator: bool
    """Values of different evaluators are different measurements."""

    @property
    def share(self) -> float | None:
        """Of equal values among those compared; None where there are none."""
        return self.equal / self.compared if self.compared else None


@dataclass(frozen=True)
class Agreement:
    """Two runs held against each other."""

    standing: Standing
    sentence: str
    """What a page or a terminal says of them."""
    first: RunVerdict
    second: RunVerdict
    criteria: tuple[CriterionPair, ...]
    """Those that both runs recomputed; none for different specs."""
    arms: tuple[ArmValues, ...]
    items: tuple[ItemCounts, ...]
    rows: Rows
    spec_changes: tuple[Change, ...]
    """From the first spec to the second."""

    def to_json(self) -> dict[str, JsonValue]:
        """The comparison as JSON; items also carry their `share`, changes their sentence as `text`."""
        return {
            **as_mapping(plain(self)),
            "items": [{**as_mapping(plain(counts)), "share": counts.share} for counts in self.items],
            "spec_changes": [change.to_json() for change in self.spec_changes],
        }


def agree(first: Side, second: Side) -> Agreement:
    """Holds two runs against each other, the earlier one first. Never raises on what they contain."""
    same_spec = first.spec.sha256 == second.spec.sha256
    grids = _grids(first), _grids(second)
    criteria = tuple(_criteria(first.judgment.decision, second.judgment.decision)) if same_spec else ()
    items = tuple(_items(*grids))
    rows = _rows(first, second, items)
    standing = _standing(first.judgment, second.judgment, criteria) if same_spec else Standing.OTHER_SPEC
    changes = () if same_spec else spec_diff(first.spec, second.spec)
    return Agreement(
        standing=standing,
        sentence=" ".join(_sentences(standing, first, second, items, rows, changes)),
        first=_verdict(first),
        second=_verdict(second),
        criteria=criteria,
        arms=tuple(_arms(_means(first, grids[0]), _means(second, grids[1]))),
        items=items,
        rows=rows,
        spec_changes=changes,
    )


def _verdict(side: Side) -> RunVerdict:
    judged = side.judgment
    return RunVerdict(
        run=side.run,
        spec_sha256=side.spec.sha256,
        verdict=judged.recorded_verdict,
        reason=judged.outcome_reason,
        basis=judged.basis,
        withheld=judged.withheld,
    )


def _standing(first: Judgment, second: Judgment, criteria: Sequence[CriterionPair]) -> Standing:
    if first.basis not in _SCIENCE or second.basis not in _SCIENCE:
        return Standing.UNDECIDED
    same = first.recorded_verdict == second.recorded_verdict and first.outcome_reason == second.outcome_reason
    return Standing.AGREE if same and all(pair.same_state for pair in criteria) else Standing.DISAGREE


def _criteria(first: Decision | None, second: Decision | None) -> Iterator[CriterionPair]:
    if first is None or second is None:
        return
    others = {criterion.id: criterion for criterion in second.criteria}
    for criterion in first.criteria:
        if criterion.id in others:
            yield _pair(criterion, others[criterion.id])


def _pair(first: CriterionResult, second: CriterionResult) -> CriterionPair:
    return CriterionPair(
        id=first.id,
        metric=first.metric,
        margin=first.margin,
        first=_estimate(first),
        second=_estimate(second),
        difference=second.effect - first.effect,
        same_state=first.state == second.state,
        second_in_first=first.lower <= second.effect <= first.upper,
    )


def _estimate(criterion: CriterionResult) -> Estimate:
    return Estimate(criterion.effect, criterion.lower, criterion.upper, criterion.n, criterion.state)


def _grids(side: Side) -> Mapping[str, Grid]:
    return {} if side.judgment.decision is None else side.judgment.decision.grids


def _means(side: Side, grids: Mapping[str, Grid]) -> dict[tuple[str, str], float]:
    """Arm and metric to its value."""
    reported = {
        (arm, metric): float(history.latest.value)
        for arm, metrics in side.state.arms.items()
        for metric, history in metrics.items()
    }
    recomputed = {(arm, metric): grid.mean_of(arm) for metric, grid in grids.items() for arm in _arms_of(grid)}
    return {**reported, **recomputed}


def _arms(first: Mapping[tuple[str, str], float], second: Mapping[tuple[str, str], float]) -> Iterator[ArmValues]:
    for arm, metric in dict.fromkeys([*first, *second]):
        one, other = first.get((arm, metric)), second.get((arm, metric))
        difference = None if one is None or other is None else other - one
        yield ArmValues(arm, metric, one, other, difference)


def _items(first: Mapping[str, Grid], second: Mapping[str, Grid]) -> Iterator[ItemCounts]:
    for metric, one in first.items():
        other = second.get(metric)
        for arm in _arms_of(one) if other is not None else ():
            if other is not None and arm in _arms_of(other):
                yield _counts(arm, metric, one, other)


def _counts(arm: str, metric: str, first: Grid, second: Grid) -> ItemCounts:
    before, after = _cells(arm, first), _cells(arm, second)
    changes = [after[cell] - value for cell, value in before.items() if cell in after]
    return ItemCounts(
        arm=arm,
        metric=metric,
        compared=len(changes),
        equal=changes.count(0),
        higher=sum(change > 0 for change in changes),
        lower=sum(change < 0 for change in changes),
        first_only=len(before) - len(changes),
        second_only=len(after) - len(changes),
        same_evaluator=first.evaluator == second.evaluator,
    )


def _cells(arm: str, grid: Grid) -> dict[tuple[int, str], int | float]:
    """Seed and item to the value."""
    return {
        (seed, item): value
        for seed in grid.seeds
        for item, value in zip(grid.items, grid.column(arm, seed), strict=True)
    }


def _arms_of(grid: Grid) -> list[str]:
    return list(dict.fromkeys(arm for arm, _ in grid.columns))


def _rows(first: Side, second: Side, items: Sequence[ItemCounts]) -> Rows:
    sources = _source(first), _source(second)
    if sources[0] is not None and sources[0] == sources[1]:
        return Rows.SAME_BYTES
    grids = _grids(first), _grids(second)
    if not grids[0] or not grids[1]:
        return Rows.UNKNOWN
    complete = {(counts.arm, counts.metric) for counts in items if counts.equal == _all(counts)}
    asked = {(arm, metric) for side in grids for metric, grid in side.items() for arm in _arms_of(grid)}
    return Rows.SAME_VALUES if complete == asked else Rows.DIFFERENT


def _source(side: Side) -> bytes | None:
    """What tells the rows of a decision from others: the hash of their file, or the rows themselves."""
    decision, posted = side.judgment.decision, side.state.latest("decision")
    if decision is not None and decision.file_sha256 is not None:
        return decision.file_sha256.encode()
    rows = None if posted is None else as_mapping(posted.value).get("observations")
    return None if rows is None else canonical(rows)


def _all(counts: ItemCounts) -> int:
    return counts.compared + counts.first_only + counts.second_only


def _sentences(
    standing: Standing,
    first: Side,
    second: Side,
    items: Sequence[ItemCounts],
    rows: Rows,
    changes: Sequence[Change],
) -> Iterator[str]:
    yield _outcome(standing, first, second, changes)
    compared, equal = sum(counts.compared for counts in items), sum(counts.equal for counts in items)
    if rows is Rows.SAME_BYTES:
        yield "Their rows are the same, byte for byte."
    elif rows is Rows.SAME_VALUES:
        yield f"All {compared:,} values of single items are equal."
    elif compared:
        yield f"{equal:,} of {compared:,} values of single items are equal."
    if not all(counts.same_evaluator for counts in items):
        yield "They were scored by different evaluators, so equal values need not mean equal answers."


def _outcome(standing: Standing, first: Side, second: Side, changes: Sequence[Change]) -> str:
    words = _recorded(first), _recorded(second)
    match standing:
        case Standing.AGREE:
            return f"The result came out again: both runs are recorded as {words[0]}."
        case Standing.DISAGREE if words[0] != words[1]:
            return f"The result did not come out again: {first.run} is {words[0]}, and {second.run} is {words[1]}."
        case Standing.DISAGREE:
            return f"Both runs are recorded as {words[0]}, and their criteria came out differently."
        case Standing.UNDECIDED:
            settling = [side for side in (first, second) if side.judgment.basis not in _SCIENCE]
            return (
                "There is nothing to confirm: " + "; ".join(f"{side.run} {_unsettled(side)}" for side in settling) + "."
            )
        case Standing.OTHER_SPEC:
            places = f"{len(changes)} place{'' if len(changes) == 1 else 's'}" if changes else "their spelling alone"
            return (
                f"The runs execute different specs, which differ in {places}, so neither confirms or contradicts the "
                f"other: {first.run} is {words[0]}, and {second.run} is {words[1]}."
            )


def _recorded(side: Side) -> str:
    """`supported`, or `inconclusive (tie)`: the verdict, and the reason where it says more."""
    verdict, reason = side.judgment.recorded_verdict, side.judgment.outcome_reason
    if verdict is None:
        return "open"
    return verdict.value if reason is None or reason.value == verdict.value else f"{verdict.value} ({reason.value})"


def _unsettled(side: Side) -> str:
    basis = side.judgment.basis
    return "has not ended" if basis is None else f"is {_recorded(side)}, decided by {_DECIDED_BY[basis]}"


_DECIDED_BY = {
    Basis.CHANGED_EXPERIMENT: "a changed experiment",
    Basis.INCOMPLETE_EXECUTION: "an incomplete execution",
    Basis.REPORT: "a report that does not settle it",
    Basis.GATE: "a gate that did not pass",
    Basis.DECISION_UNVERIFIED: "a decision that could not be recomputed",
    Basis.MISMATCH: "a report that is not what its rows say",
    Basis.LEARNING_RATE_EDGE: "a learning rate at the edge of its grid",
}
"""What a verdict rests on where it does not rest on the science."""
