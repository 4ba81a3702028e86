"""The criteria of a decision, each with its interval and with how the single items came out."""

from collections.abc import Mapping
from dataclasses import dataclass

from research_exchange.decision import CriterionResult, CriterionState, Decision
from research_exchange.decision_grid import Grid
from research_exchange.documents.gates import Provenance
from research_exchange.judgment import Judgment
from research_exchange.presentation.figure import Figure
from research_exchange.presentation.interval import interval_drawing
from research_exchange.presentation.words import contrast_text

_SETTLED = {
    CriterionState.PASS: "The whole interval lies above the margin: the criterion is met.",
    CriterionState.FAIL: "The whole interval lies below the margin: the criterion is not met.",
    CriterionState.TIE: "The whole interval lies inside the tie band.",
    CriterionState.UNSETTLED: "The interval reaches over the margin: it settles nothing.",
}
_EQUAL = 1e-12
"""Contrasts of an item that are no further from 0 count as ties: their parts are sums of decimal fractions."""


@dataclass(frozen=True)
class Tally:
    """Items by the sign of their contrast, averaged over the seeds."""

    wins: int
    losses: int
    ties: int


@dataclass(frozen=True)
class CriterionPanel:
    result: CriterionResult
    contrast: str
    settled: str
    figure: Figure | None
    tally: Tally | None
    """None where the rows are not at hand."""


@dataclass(frozen=True)
class ComparedNumber:
    """A number as the runner reports it, beside what the Exchange computes itself (R-215)."""

    path: str
    update: int
    reported: float
    recomputed: float | None
    provenance: Provenance

    @property
    def disagrees(self) -> bool:
        return self.recomputed is not None and self.provenance is not Provenance.RECOMPUTED


def criteria(decision: Decision | None) -> tuple[CriterionPanel, ...]:
    return () if decision is None else tuple(_panel(result, decision.grids) for result in decision.criteria)


def compared_numbers(judgment: Judgment) -> tuple[ComparedNumber, ...]:
    return tuple(
        ComparedNumber(each.path, each.update, each.value, each.recomputed, each.provenance)
        for each in judgment.numbers
    )


def _panel(result: CriterionResult, grids: Mapping[str, Grid]) -> CriterionPanel:
    grid = grids.get(result.metric)
    tally = None if grid is None else _tally(result.weights, grid)
    return CriterionPanel(
        result, contrast_text(result.weights), _SETTLED[result.state], interval_drawing(result), tally
    )


def _tally(weights: Mapping[str, int | float], grid: Grid) -> Tally:
    columns = [(weight, grid.column(arm, seed)) for arm, weight in weights.items() for seed in grid.seeds]
    contrasts = [0.0] * len(grid.items)
    for weight, column in columns:
        contrasts = [sum_ + weight * value for sum_, value in zip(contrasts, column, strict=True)]
    wins = sum(contrast > _EQUAL for contrast in contrasts)
    losses = sum(contrast < -_EQUAL for contrast in contrasts)
    return Tally(wins, losses, len(contrasts) - wins - losses)
