"""The complete grid: every arm × item × scheduled seed of a metric, exactly once (R-143 to R-148)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from research_exchange.documents.decision_rule import DecisionRule
from research_exchange.documents.evaluation import SCORE_TOLERANCE, Evaluation, Evaluator
from research_exchange.documents.fields import show, show_names
from research_exchange.documents.gates import Problem
from research_exchange.documents.observations import MAX_PROBLEMS, Observations
from research_exchange.statistics import mean

__all__ = ["Findings", "Grid", "check_grid"]

_INFER_NOTHING = "Report every value once; nothing is inferred, dropped or clipped."


@dataclass(frozen=True)
class Grid:
    """The values of one metric, complete."""

    evaluator: str
    items: tuple[str, ...]
    seeds: tuple[int, ...]
    columns: Mapping[tuple[str, int], Sequence[int | float]]
    """Arm and seed to one value per item, in the order of `items`."""

    def column(self, arm: str, seed: int) -> Sequence[int | float]:
        """One value per item, in the order of `items`."""
        return self.columns[arm, seed]

    def mean_of(self, arm: str, seed: int | None = None) -> float:
        """Over all items, of one seed or of all."""
        seeds = self.seeds if seed is None else (seed,)
        return mean([value for each in seeds for value in self.columns[arm, each]])


class Findings:
    """Problems as they are found, and what they mean for the decision as a whole."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.count = 0
        """Of all problems, those that are not kept among them."""
        self.contradicted = False
        """The rows break what was fixed before, such as the seed schedule; nothing is merely missing."""
        self.incomplete = False
        """Rows that the rule asks for are missing."""

    def add(self, rule: str, path: str, expected: str, found: str, action: str = _INFER_NOTHING) -> None:
        """Keeps the first `MAX_PROBLEMS`: a file that is wrong throughout needs no sentence per row."""
        self.count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(rule, path, expected, found, action))


def check_grid(
    rule: DecisionRule, metric: str, rows: Observations, path: str, evaluation: Evaluation, findings: Findings
) -> Grid | None:
    """The grid of a metric, or None with the reasons in `findings`.

    Args:
        rows: The rows of this metric, in any order.
        path: Where the rows stand, for problem sentences.
        evaluation: The report that defines the evaluator and its scores.
    """
    before = findings.count
    evaluator = _one_evaluator(metric, rows, path, evaluation, findings)
    if evaluator is None or evaluator.items is None:
        return None
    collected = _Collection(rule, metric, evaluator.items, path, findings)
    collected.add_all(rows)
    collected.find_missing()
    if findings.count > before:
        return None
    grid = Grid(evaluator.id, evaluator.items, rule.seeds, collected.columns())
    _compare_scores(metric, grid, evaluation, findings)
    return grid if findings.count == before else None


def _one_evaluator(
    metric: str, rows: Observations, path: str, evaluation: Evaluation, findings: Findings
) -> Evaluator | None:
    """The one evaluator of all rows, if it is defined, honest, and lists its items (R-145, R-146)."""
    ids = sorted(set(rows.evaluators))
    if not ids:
        findings.incomplete = True
        findings.add("R-143", path, f"rows of the metric {show(metric)}", "none")
    elif len(ids) > 1:
        action = "Score every arm with one frozen evaluator."
        findings.add("R-146", path, f"one evaluator for {show(metric)}", show_names(ids), action)
    elif ids[0] not in evaluation.evaluators:
        action = "Report its provenance in evaluation.evaluators."
        findings.add("R-146", path, "an evaluator defined in evaluation", show(ids[0]), action)
    else:
        return _sound(evaluation.evaluators[ids[0]], findings)
    return None


def _sound(evaluator: Evaluator, findings: Findings) -> Evaluator | None:
    for problem in evaluator.problems:
        findings.add(problem.rule, problem.path, problem.expected, problem.found, problem.action)
    findings.contradicted |= bool(evaluator.contradictions)
    if evaluator.manifest is not None and not evaluator.problems:
        path = f"evaluation.evaluators[{show(evaluator.id)}].items"
        found, action = "a manifest", "List the ids: manifests are not yet resolved by the decision validator."
        findings.add("R-145", path, "explicit ids", found, action)
    return None if evaluator.problems or evaluator.manifest is not None else evaluator


class _Collection:
    """Places rows into the grid one by one."""

    def __init__(self, rule: DecisionRule, metric: str, items: Sequence[str], path: str, findings: Findings) -> None:
        self._arms = rule.arms_of(metric)
        self._seeds = rule.seeds
        self._cells: dict[tuple[str, int], dict[str, int | float]] = {
            (arm, seed): {} for arm in self._arms for seed in self._seeds
        }
        self._metric = metric
        self._items = items
        self._known = frozenset(items)
        self._low = max(c.bounds.low for c in rule.criteria if c.metric == metric)
        self._high = min(c.bounds.high for c in rule.criteria if c.metric == metric)
        self._path = path
        self._findings = findings

    def add_all(self, rows: Observations) -> None:
        """Places every row where it says it belongs, and complains about those that belong nowhere."""
        known, low, high = self._known, self._low, self._high
        columns = zip(rows.places, rows.arms, rows.seeds, rows.items, rows.values, strict=True)
        for place, arm, seed, item, value in columns:
            cell = self._cells.get((arm, seed))
            if cell is not None and item in known and item not in cell and low <= value <= high:
                cell[item] = value
            else:
                self._complain(place, arm, seed, item, value)

    def find_missing(self) -> None:
        for (arm, seed), cell in self._cells.items():
            if len(cell) < len(self._items):
                self._findings.incomplete = True
                missing = next(item for item in self._items if item not in cell)
                expected = f"{len(self._items)} items of {show(arm)} with seed {seed} on {show(self._metric)}"
                self._findings.add("R-143", self._path, expected, f"{len(cell)} usable; {show(missing)} is missing")

    def columns(self) -> dict[tuple[str, int], list[int | float]]:
        """Of a complete grid: arm and seed to the values in the order of the items."""
        return {key: [cell[item] for item in self._items] for key, cell in self._cells.items()}

    def _complain(self, place: int, arm: str, seed: int, item: str, value: int | float) -> None:
        if arm not in self._arms:
            self._add("R-143", place, "arm", f"an arm of the rule ({show_names(self._arms)})", arm)
        elif seed not in self._seeds:
            self._findings.contradicted = True
            self._add("R-148", place, "seed", f"a scheduled seed ({show(list(self._seeds))})", seed)
        elif item not in self._known:
            self._add("R-145", place, "item_id", "an item of the evaluator", item)
        elif item in self._cells[arm, seed]:
            self._add("R-143", place, "item_id", "each item once per arm and seed", item)
        else:
            self._add("R-144", place, "value", f"a value in [{self._low}, {self._high}]", value)

    def _add(self, rule: str, place: int, name: str, expected: str, found: object) -> None:
        self._findings.add(rule, f"{self._path}[{place}].{name}", expected, show(found))


def _compare_scores(metric: str, grid: Grid, evaluation: Evaluation, findings: Findings) -> None:
    """Each arm's score per seed is the mean of its rows (R-147)."""
    reported: dict[tuple[str, int | None], list[int | float]] = {}
    for score in evaluation.scores:
        if score.metric == metric and score.evaluator == grid.evaluator:
            reported.setdefault((score.arm, score.seed), []).append(score.value)
    for arm, seed in grid.columns:
        recomputed = grid.mean_of(arm, seed)
        scores = reported.get((arm, seed), [])
        if not scores or any(abs(score - recomputed) > SCORE_TOLERANCE for score in scores):
            expected = f"a score of {recomputed!r} for {show(arm)}, {show(metric)}, seed {seed}"
            action = "Report the unrounded mean of the same rows."
            findings.add("R-147", "evaluation.scores", expected, ", ".join(map(repr, scores[:5])) or "none", action)
