"""Whether what else a run retains bears its decision out: the predictions item by item, and how many items there are.

The rows of a decision are the runner's own. Where it also keeps the answers they were graded from, both must say the
same of each item; and a decision over fewer items than the spec evaluates is another decision.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from research_exchange.decision import Decision
from research_exchange.deviations import Deviations
from research_exchange.documents.evaluation import Score
from research_exchange.documents.evidence import EvidenceLost, EvidenceShelf
from research_exchange.documents.fields import as_mapping, is_number, is_text, is_whole, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import GateStatus, Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_PROBLEMS, Observations, read_file, read_rows
from research_exchange.documents.run_state import OutcomeReason, Posted, RunState, Verdict
from research_exchange.documents.spec import Spec
from research_exchange.prediction_checks import backed_scores
from research_exchange.predictions import PredictionFiles

__all__ = ["hold_against_evidence"]

_Graded: TypeAlias = dict[tuple[str, str, str | None, str | None], tuple[int | float, str]]
"""Metric, prediction, and its reference, or where that is no text its item; to the first grade and where it stands."""


def hold_against_evidence(
    spec: Spec, state: RunState, decision: Decision, files: PredictionFiles, deviations: Deviations
) -> Decision:
    """The decision, or one that decides nothing with what stands against it. One that was not recomputed stays."""
    if decision.status is not GateStatus.PASSED:
        return decision
    findings = Findings()
    _check_sizes(spec, decision, deviations, findings)
    values = _Values(decision)
    for problem in islice(_contradictions(state, values, files), MAX_PROBLEMS):
        findings.contradict(problem.rule, problem.path, problem.expected, problem.found, problem.action)
    _check_earlier_rows(state, values, files.shelf, findings)
    if not findings.problems:
        return decision
    return replace(
        decision,
        status=findings.status,
        verdict=Verdict.INCONCLUSIVE,
        outcome_reason=OutcomeReason.INSUFFICIENT_EVIDENCE,
        criteria=(),
        grids={},
        problems=findings.problems,
    )


class _Values:
    """The values that were decided on, by the metric, evaluator, arm and seed of their rows."""

    def __init__(self, decision: Decision) -> None:
        self._grids = decision.grids
        self._cells = {
            (criterion.metric, criterion.evaluator, arm, seed)
            for criterion in decision.criteria
            for arm in criterion.means
            for seed in decision.grids[criterion.metric].seeds
        }
        self._by_cell: dict[tuple[str, str, str, int], dict[str, int | float]] = {}

    def of(self, metric: str, evaluator: str, arm: str, seed: int | None) -> Mapping[str, int | float]:
        """Item to value; empty where such rows decide nothing."""
        if seed is None or (cell := (metric, evaluator, arm, seed)) not in self._cells:
            return {}
        if cell not in self._by_cell:
            grid = self._grids[metric]
            self._by_cell[cell] = dict(zip(grid.items, grid.column(arm, seed), strict=True))
        return self._by_cell[cell]


def _check_sizes(spec: Spec, decision: Decision, deviations: Deviations, findings: Findings) -> None:
    """A criterion is decided on `eval.n_examples` items; another number is a deviation that was stated (R-080).

    A rule that confirms or samples a part of the items says which, and those are compared where that is judged.
    """
    planned, rule = spec.section("eval").get("n_examples"), spec.section("decision_rule")
    if not is_whole(planned) or rule.get("selection") is not None or rule.get("population") is not None:
        return
    for grid in decision.grids.values():
        n = len(grid.items)
        if n != planned and not deviations.states(("evaluator", "eval.n_examples"), n, in_time=True):
            path = f"evaluation.evaluators[{show(grid.evaluator)}].items"
            action = "Evaluate the items of the spec, or state the deviation before training."
            findings.contradict("R-080", path, f"{planned} items", f"{n}", action)


def _contradictions(state: RunState, values: _Values, files: PredictionFiles) -> Iterator[Problem]:
    graded: _Graded = {}
    for score, rows in backed_scores(state.evaluation, files):
        decided = values.of(score.metric, score.evaluator, score.arm, score.seed)
        for row in rows if decided else ():
            yield from _hold_row(row, decided, score, graded)


def _check_earlier_rows(state: RunState, values: _Values, shelf: EvidenceShelf, findings: Findings) -> None:
    """A value that was reported once for an item stays; scoring until one fits is not scoring (R-137)."""
    history = state.posted.get("decision", ())
    seen = [_reference(history[-1])]
    for posted in history[:-1]:
        reference = _reference(posted)
        if reference is None or reference not in seen:
            seen.append(reference)
            _check_rows(_rows(posted, shelf), f"of update {posted.update}", values, findings)


def _check_rows(rows: Observations, source: str, values: _Values, findings: Findings) -> None:
    columns = (rows.metrics, rows.evaluators, rows.arms, rows.seeds, rows.items, rows.values)
    for metric, evaluator, arm, seed, item, value in zip(*columns, strict=True):
        decided = values.of(metric, evaluator, arm, seed).get(item, value)
        if decided != value:
            expected = f"the value {value!r} of {show(item)} for {show(arm)}, as in the rows {source}"
            action = "Keep the values as they were scored; a changed evaluator has another id."
            findings.miss("R-137", "decision", expected, f"{decided!r}", action)
            return


def _rows(posted: Posted, shelf: EvidenceShelf) -> Observations:
    """The rows of an earlier decision, as far as they can be read."""
    decision = as_mapping(posted.value)
    inline, file = decision.get("observations"), as_mapping(decision.get("observations_file"))
    if inline is not None:
        return read_rows(inline, "decision.observations")
    name = file.get("name")
    kept = shelf.find(name) if isinstance(name, str) else None
    if kept is None or kept.kind != "metrics" or kept.sha256 != file.get("sha256"):
        return Observations()
    try:
        return read_file(shelf.read(kept.name), kept.name)
    except EvidenceLost:
        return Observations()


def _reference(posted: Posted) -> JsonValue:
    """The file that a decision refers to; None for rows that stand in the update."""
    return as_mapping(posted.value).get("observations_file")


def _hold_row(
    row: Mapping[str, JsonValue],
    values: Mapping[str, int | float],
    score: Score,
    graded: _Graded,
) -> Iterator[Problem]:
    """One prediction against the value that was decided on; and the same right or wrong for the same answer.

    An answer and the right one are graded in one way, whatever item and arm they belong to. Where the grade depends on
    more than these two texts, the row leaves its prediction null.
    """
    item, path = str(row["item_id"]), f"{score.path}.predictions_ref"
    if item not in values:
        return
    value, grade, prediction, reference = values[item], row.get("value"), row["prediction"], row["reference"]
    if is_number(grade) and grade != value:
        expected, action = (
            f"the value {value!r} of {show(item)}, as in the observations",
            "Report one value for an item.",
        )
        yield Problem("R-134", path, expected, show(grade), action)
    if value not in (0, 1) or not is_text(prediction):
        return
    key = (score.metric, prediction, reference if is_text(reference) else None, None if is_text(reference) else item)
    other, where = graded.setdefault(key, (value, f"{show(item)} for {show(score.arm)}"))
    if other != value:
        expected = f"{show(prediction)} graded {other!r} on {show(item)}, as on {where}"
        action = "One frozen evaluator grades one answer in one way; score every arm again."
        yield Problem("R-134", path, expected, f"{value!r}", action)
