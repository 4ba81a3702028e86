"""The complete grid: every arm × item × scheduled seed of a metric, exactly once (R-143 to R-148)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from research_exchange.documents.decision_rule import DecisionRule
from research_exchange.documents.evaluation import SCORE_TOLERANCE, Evaluation, Evaluator
from research_exchange.documents.fields import show, show_names
from research_exchange.documents.gates import Problem
from research_exchange.documents.observations import MAX_PROBLEMS, Observation
from research_exchange.statistics import mean

__all__ = ["Findings", "Grid", "check_grid"]

_INFER_NOTHING = "Report every value once; nothing is inferred, dropped or clipped."


@dataclass(frozen=True)
class Grid:
    """The values of one metric, complete."""

    evaluator: str
    items: tuple[str, ...]
    seeds: tuple[int, ...]
    values: Mapping[str, Mapping[int, Mapping[str, int | float]]]
    """Arm, seed, item."""

    def column(self, arm: str, seed: int) -> list[int | float]:
        """One value per item, in the order of `items`."""
        cell = self.values[arm][seed]
        return [cell[item] for item in self.items]

    def mean_of(self, arm: str, seed: int | None = None) -> float:
        """Over all items, of one seed or of all."""
        seeds = self.seeds if seed is None else (seed,)
        return mean([value for each in seeds for value in self.values[arm][each].values()])


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
    rule: DecisionRule, metric: str, rows: Sequence[Observation], path: str, evaluation: Evaluation, findings: Findings
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
    collected = _Collection(rule, metric, frozenset(evaluator.items), path, findings)
    for row in rows:
        collected.add(row)
    collected.find_missing(evaluator.items)
    if findings.count > before:
        return None
    grid = Grid(evaluator.id, evaluator.items, rule.seeds, collected.values)
    _compare_scores(metric, grid, evaluation, findings)
    return grid if findings.count == before else None


def _one_evaluator(
    metric: str, rows: Sequence[Observation], path: str, evaluation: Evaluation, findings: Findings
) -> Evaluator | None:
    """The one evaluator of all rows, if it is defined, honest, and lists its items (R-145, R-146)."""
    ids = sorted({row.evaluator for row in rows})
    if not rows:
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

    def __init__(self, rule: DecisionRule, metric: str, items: frozenset[str], path: str, findings: Findings) -> None:
        self.values: dict[str, dict[int, dict[str, int | float]]] = {
            arm: {seed: {} for seed in rule.seeds} for arm in rule.arms_of(metric)
        }
        self._metric = metric
        self._items = items
        self._seeds = rule.seeds
        self._low = max(c.bounds.low for c in rule.criteria if c.metric == metric)
        self._high = min(c.bounds.high for c in rule.criteria if c.metric == metric)
        self._path = path
        self._findings = findings

    def add(self, row: Observation) -> None:
        by_seed = self.values.get(row.arm)
        cell = None if by_seed is None else by_seed.get(row.seed)
        if by_seed is None:
            self._complain("R-143", row, "arm", f"an arm of the rule ({show_names(tuple(self.values))})", row.arm)
        elif cell is None:
            self._findings.contradicted = True
            self._complain("R-148", row, "seed", f"a scheduled seed ({show(list(self._seeds))})", row.seed)
        elif row.item not in self._items:
            self._complain("R-145", row, "item_id", "an item of the evaluator", row.item)
        elif row.item in cell:
            self._complain("R-143", row, "item_id", "each item once per arm and seed", row.item)
        elif not self._low <= row.value <= self._high:
            self._complain("R-144", row, "value", f"a value in [{self._low}, {self._high}]", row.value)
        else:
            cell[row.item] = row.value

    def find_missing(self, items: Sequence[str]) -> None:
        for arm, by_seed in self.values.items():
            for seed, cell in by_seed.items():
                if len(cell) < len(items):
                    self._findings.incomplete = True
                    missing = next(item for item in items if item not in cell)
                    expected = f"{len(items)} items of {show(arm)} with seed {seed} on {show(self._metric)}"
                    self._findings.add("R-143", self._path, expected, f"{len(cell)} usable; {show(missing)} is missing")

    def _complain(self, rule: str, row: Observation, name: str, expected: str, found: object) -> None:
        self._findings.add(rule, f"{self._path}[{row.index}].{name}", expected, show(found))


def _compare_scores(metric: str, grid: Grid, evaluation: Evaluation, findings: Findings) -> None:
    """Each arm's score per seed is the mean of its rows (R-147)."""
    reported: dict[tuple[str, int | None], list[int | float]] = {}
    for score in evaluation.scores:
        if score.metric == metric and score.evaluator == grid.evaluator:
            reported.setdefault((score.arm, score.seed), []).append(score.value)
    for arm in grid.values:
        for seed in grid.seeds:
            recomputed = grid.mean_of(arm, seed)
            scores = reported.get((arm, seed), [])
            if not scores or any(abs(score - recomputed) > SCORE_TOLERANCE for score in scores):
                expected = f"a score of {recomputed!r} for {show(arm)}, {show(metric)}, seed {seed}"
                action = "Report the unrounded mean of the same rows."
                findings.add("R-147", "evaluation.scores", expected, ", ".join(map(repr, scores)) or "none", action)
