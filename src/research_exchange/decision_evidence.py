"""Whether what else a run retains bears its decision out: the predictions item by item, and how many items there are.

The rows of a decision are the runner's own. Where it also keeps the answers they were graded from, both must say the
same of each item; and a decision over fewer items than the spec evaluates is another decision.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from research_exchange.decision import Decision
from research_exchange.deviations import Deviations
from research_exchange.documents.evaluation import Score, parse_evaluation
from research_exchange.documents.fields import is_number, is_text, is_whole, show
from research_exchange.documents.gates import GateStatus, Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.run_state import OutcomeReason, RunState, Verdict
from research_exchange.documents.spec import Spec
from research_exchange.prediction_checks import backed_scores
from research_exchange.predictions import PredictionFiles

__all__ = ["hold_against_evidence"]


def hold_against_evidence(
    spec: Spec, state: RunState, decision: Decision, files: PredictionFiles, deviations: Deviations
) -> Decision:
    """The decision, or a failed one with the contradictions. One that could not be recomputed stays as it is."""
    if decision.status is not GateStatus.PASSED:
        return decision
    found = (*_sizes(spec, decision, deviations), *islice(_contradictions(state, decision, files), MAX_PROBLEMS))
    if not found:
        return decision
    return replace(
        decision,
        status=GateStatus.FAILED,
        verdict=Verdict.INCONCLUSIVE,
        outcome_reason=OutcomeReason.INSUFFICIENT_EVIDENCE,
        criteria=(),
        grids={},
        problems=found,
    )


def _sizes(spec: Spec, decision: Decision, deviations: Deviations) -> list[Problem]:
    """A criterion is decided on `eval.n_examples` items; another number is a deviation that was stated (R-080).

    A rule that confirms or samples a part of the items says which, and those are compared where that is judged.
    """
    planned, rule = spec.section("eval").get("n_examples"), spec.section("decision_rule")
    if not is_whole(planned) or rule.get("selection") is not None or rule.get("population") is not None:
        return []
    action = "Evaluate the items of the spec, or state the deviation before training."
    return [
        Problem(
            "R-080", f"evaluation.evaluators[{show(criterion.evaluator)}].items", f"{planned} items", f"{n}", action
        )
        for criterion in decision.criteria
        if (n := criterion.n) != planned and not deviations.states(("evaluator", "eval.n_examples"), n)
    ]


def _contradictions(state: RunState, decision: Decision, files: PredictionFiles) -> Iterator[Problem]:
    posted = state.latest("evaluation")
    graded: dict[tuple[str, str, str], tuple[int | float, str]] = {}
    decided = {
        (criterion.metric, criterion.evaluator, arm) for criterion in decision.criteria for arm in criterion.means
    }
    for score, rows in backed_scores(parse_evaluation(None if posted is None else posted.value), files):
        grid = decision.grids.get(score.metric)
        if grid is None or score.seed not in grid.seeds or (score.metric, score.evaluator, score.arm) not in decided:
            continue
        values = dict(zip(grid.items, grid.column(score.arm, score.seed), strict=True))
        for row in rows:
            yield from _hold_row(row, values, score, graded)


def _hold_row(
    row: Mapping[str, JsonValue],
    values: Mapping[str, int | float],
    score: Score,
    graded: dict[tuple[str, str, str], tuple[int | float, str]],
) -> Iterator[Problem]:
    """One prediction against the value that was decided on; and the same right or wrong for the same answer."""
    item, path = str(row["item_id"]), f"{score.path}.predictions_ref"
    if item not in values:
        return
    value, grade, prediction = values[item], row.get("value"), row["prediction"]
    if is_number(grade) and grade != value:
        expected, action = (
            f"the value {value!r} of {show(item)}, as in the observations",
            "Report one value for an item.",
        )
        yield Problem("R-134", path, expected, show(grade), action)
    if value not in (0, 1) or not is_text(prediction):
        return
    other, arm = graded.setdefault((score.metric, item, prediction), (value, score.arm))
    if other != value:
        expected = f"{show(prediction)} graded {other!r} on {show(item)}, as for {show(arm)}"
        action = "One frozen evaluator grades one answer in one way; score every arm again."
        yield Problem("R-134", path, expected, f"{value!r}", action)
