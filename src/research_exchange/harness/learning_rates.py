"""Learning rates chosen on a grid: every arm under the same budget, on selection items, before anything is confirmed.

    search = LearningRateSearch(run, steps=20)
    for arm, rate, seed in search.pending():
        score = ...train `arm` for 20 steps at `rate`, score it with an evaluator of the selection items...
        search.record(arm, rate, score)
    selection = search.freeze()          # before any confirmation item is scored
    search.selected("treatment")
    ...
    comparison.conclude(selection=selection)

The grids, and the items that select, are the spec's (contract §13). A rate at the edge of its grid keeps the verdict
inconclusive whatever comes out, because a better one may lie beyond; the run says so as soon as an arm's grid is done,
before the comparison is paid for.
"""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from research_exchange.client import Run
from research_exchange.documents.selection import SelectionPlan, parse_selection_plan
from research_exchange.documents.spec import Spec
from research_exchange.harness.errors import HarnessError
from research_exchange.harness.rows import jsonl
from research_exchange.harness.scores import ArmScore

__all__ = ["LearningRateSearch", "Point"]


class Point(NamedTuple):
    """One training of a search."""

    arm: str
    learning_rate: int | float
    seed: int


class LearningRateSearch:
    """The trainings that select each arm's learning rate, and what they select."""

    def __init__(self, run: Run, *, steps: int, seeds: Sequence[int] = (0,)) -> None:
        """
        Args:
            steps: Optimizer steps of each training: the same for every arm and rate.
            seeds: What every rate is trained with.

        Raises:
            HarnessError: if the spec's grids or item lists cannot be applied, or its grids differ in their number of
                rates: an arm that is tried more often is tuned under a larger budget (R-152).
        """
        self._run = run
        self._steps = steps
        self._plan = _plan(Spec.parse(run.spec_bytes()))
        self._seeds = tuple(seeds)
        self._scores: dict[Point, ArmScore] = {}
        self._frozen = False

    @property
    def budget(self) -> dict[str, int]:
        """Optimizer steps that each arm's search takes."""
        return {arm: len(rates) * len(self._seeds) * self._steps for arm, rates in self._plan.grids.items()}

    def pending(self) -> Iterator[Point]:
        """What is still to be trained: rates in turn, every arm at each, so that a search cut short favours none."""
        for rates in zip(*self._plan.grids.values(), strict=True):
            for arm, rate in zip(self._plan.grids, rates, strict=True):
                for seed in self._seeds:
                    if (point := Point(arm, rate, seed)) not in self._scores:
                        yield point

    def record(self, arm: str, learning_rate: int | float, score: ArmScore, *, steps: int | None = None) -> None:
        """Take in the score of a training, and tell at once if the arm's grid is done and its best rate at an edge.

        Args:
            score: On the selection items.
            steps: Steps that were really taken, where they differ from the plan's.

        Raises:
            HarnessError: if the training was under another budget, is not of the grid, or was scored on items that do
                not select.
        """
        if learning_rate not in self._plan.grids.get(arm, ()) or score.seed not in self._seeds:
            raise HarnessError(
                f"{arm} at {learning_rate} with seed {score.seed} is no training of this search; "
                "train what the spec's grid lists, with the seeds of the search (R-152)."
            )
        if steps not in (None, self._steps):
            raise HarnessError(
                f"{arm} took {steps} steps at {learning_rate}; every arm and rate takes {self._steps} (R-152)."
            )
        if self._frozen:
            raise HarnessError("The selection is frozen; what is scored from here on selects nothing (R-150).")
        _check_items(self._plan, score)
        self._scores[Point(arm, learning_rate, score.seed)] = score
        edge = self._edge(arm) if self._is_done(arm) else None
        if edge is not None:
            self._run.update(summary=edge)

    def selected(self, arm: str) -> int | float:
        """The rate with the best mean over seeds; of two that are equally good the lower one.

        Raises:
            HarnessError: while a training of the arm's grid has no score.
        """
        if not self._is_done(arm):
            missing = next(point for point in self.pending() if point.arm == arm)
            raise HarnessError(f"{arm} has no score at {missing.learning_rate} with seed {missing.seed} yet.")
        means = {rate: self._mean(arm, rate) for rate in self._plan.grids[arm]}
        return max(means, key=lambda rate: (means[rate], -rate))

    @property
    def edges(self) -> list[str]:
        """A sentence for each arm whose grid is done and whose best rate is its lowest or highest."""
        found = [self._edge(arm) for arm in self._plan.grids if self._is_done(arm)]
        return [sentence for sentence in found if sentence is not None]

    def freeze(self) -> dict[str, Any]:
        """Put the selection on record, with the scores it follows from, before any confirmation item is scored (R-150).

        Returns:
            `decision.selection`, to be reported once more, unchanged, with the decision.
        """
        rates = {arm: {"grid": list(rates), "selected": self.selected(arm)} for arm, rates in self._plan.grids.items()}
        selection = {"frozen_before_confirmation": True, "learning_rates": rates}
        self._run.evidence("learning-rates.jsonl", "metrics", jsonl(self.rows()))
        self._run.update(decision={"version": 1, "selection": selection})
        self._frozen = True
        return selection

    def rows(self) -> list[dict[str, Any]]:
        """Every training of the search, by arm, rate and seed."""
        return [
            {
                **point._asdict(),
                "steps": self._steps,
                "metric": score.metric,
                "value": score.mean,
                "items": len(score.answers),
                "evaluator_id": score.evaluator_id,
                "checkpoint": score.checkpoint,
            }
            for point, score in sorted(self._scores.items())
        ]

    def _is_done(self, arm: str) -> bool:
        rates = self._plan.grids[arm]
        return all(Point(arm, rate, seed) in self._scores for rate in rates for seed in self._seeds)

    def _mean(self, arm: str, rate: int | float) -> float:
        return statistics.fmean(self._scores[Point(arm, rate, seed)].mean for seed in self._seeds)

    def _edge(self, arm: str) -> str | None:
        rates, best = self._plan.grids[arm], self.selected(arm)
        if best not in (rates[0], rates[-1]):
            return None
        edge = "lowest" if best == rates[0] else "highest"
        return (
            f"The best learning rate of {arm} is {best}, the {edge} of its grid: "
            "a better one may lie beyond, so the verdict will be inconclusive (R-152)."
        )


def _plan(spec: Spec) -> SelectionPlan:
    plan = parse_selection_plan(spec)
    sizes = {arm: len(rates) for arm, rates in plan.grids.items()}
    if plan.gaps:
        raise HarnessError(f"The spec's plan of selection cannot be applied: {plan.gaps[0]}")
    if not sizes:
        raise HarnessError("No arm of the spec has an lr_grid (R-152), so there is no learning rate to select.")
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{size} for {arm}" for arm, size in sizes.items())
        raise HarnessError(
            f"The spec's grids have different numbers of rates ({listed}), so arms would be tuned under different "
            "budgets; save a version with as many rates for each (R-152)."
        )
    return plan


def _check_items(plan: SelectionPlan, score: ArmScore) -> None:
    chosen, confirmed = (items.ids if items else None for items in (plan.selection, plan.confirmation))
    scored = {answer.item_id for answer in score.answers}
    shared = sorted(scored & set(confirmed or ()))
    if shared:
        raise HarnessError(f"The item {shared[0]} confirms, and so it cannot select; score selection items (R-150).")
    if chosen is not None and scored != set(chosen):
        raise HarnessError(
            f"{score.arm} was scored on {len(scored)} items, which are not the spec's {len(chosen)} selection items."
        )
