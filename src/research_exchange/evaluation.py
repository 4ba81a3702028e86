"""Evaluator comparability: every compared arm was scored by one and the same frozen evaluator (contract §11)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from research_exchange.documents.decision_rule import parse_decision_rule
from research_exchange.documents.evaluation import (
    SCORE_TOLERANCE,
    Comparison,
    Evaluation,
    Score,
    evaluator_id,
    parse_evaluation,
)
from research_exchange.documents.evidence import EvidenceLost, EvidenceShelf
from research_exchange.documents.fields import is_number, show, show_names
from research_exchange.documents.gates import Flag, GateStatus, Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import BASE_ARM, Spec
from research_exchange.predictions import PredictionFiles
from research_exchange.statistics import mean

__all__ = ["Comparability", "check_comparability", "evaluator_id"]


@dataclass(frozen=True)
class Comparability:
    """Whether the compared arms can be compared."""

    status: GateStatus
    reason: str
    problems: tuple[Problem, ...] = ()
    shared: Mapping[str, str] = field(default_factory=dict)
    """Compared metric to the evaluator that scored every compared arm."""
    flags: tuple[Flag, ...] = ()


def check_comparability(spec: Spec, state: RunState, predictions: PredictionFiles) -> Comparability:
    """Judges the latest `evaluation` report: evaluators are what they say, and each comparison has one in common."""
    posted = state.latest("evaluation")
    if posted is None:
        problem = Problem("R-130", "evaluation", "evaluators and scores", "nothing", "Report them with the scores.")
        return Comparability(GateStatus.UNVERIFIED, "No evaluation was reported.", (problem,))
    evaluation = parse_evaluation(posted.value)
    false = [problem for evaluator in evaluation.evaluators.values() for problem in evaluator.contradictions]
    gaps = [*evaluation.gaps, *(gap for evaluator in evaluation.evaluators.values() for gap in evaluator.gaps)]
    gaps += _manifest_gaps(evaluation, predictions.shelf) + _conflicts(state)
    for score in evaluation.scores:
        check = _check_predictions(score, evaluation, predictions)
        false += check.false
        gaps += check.gaps
    shared = {c.metric: _shared_evaluators(spec, evaluation, c) for c in _comparisons(spec, evaluation)}
    gaps += _unshared(spec, evaluation)
    status = GateStatus.FAILED if false else GateStatus.UNVERIFIED if gaps else GateStatus.PASSED
    return Comparability(
        status=status,
        reason=_REASONS[status],
        problems=tuple((false + gaps)[:MAX_PROBLEMS]),
        shared={metric: ids[0] for metric, ids in shared.items() if ids},
        flags=_late_evaluators(state),
    )


_REASONS = {
    GateStatus.PASSED: "Every compared arm has a score from the same evaluator.",
    GateStatus.FAILED: "An evaluator or its predictions are not what they are said to be.",
    GateStatus.UNVERIFIED: "The compared arms cannot be shown to have been scored alike.",
}


def _comparisons(spec: Spec, evaluation: Evaluation) -> list[Comparison]:
    """What the runner compares and what the spec's rule compares."""
    rule = parse_decision_rule(spec).rule
    prescribed = [
        Comparison(f"decision_rule.criteria[{show(criterion.id)}]", criterion.metric, tuple(criterion.weights))
        for criterion in (rule.criteria if rule is not None else ())
    ]
    return [*evaluation.comparisons, *prescribed]


def _unshared(spec: Spec, evaluation: Evaluation) -> list[Problem]:
    comparisons = _comparisons(spec, evaluation)
    if not comparisons:
        action = "Say in evaluation.comparisons which arms are compared on which metric."
        return [Problem("R-135", "evaluation.comparisons", "at least one comparison", "none", action)]
    action = "Score every compared arm, and the base model, again with the evaluator in use now."
    return [
        Problem(
            "R-135",
            comparison.path,
            f"one evaluator that scored {show_names(comparison.arms)} on {show(comparison.metric)} for every seed",
            "no such evaluator",
            action,
        )
        for comparison in comparisons
        if not _shared_evaluators(spec, evaluation, comparison)
    ]


def _shared_evaluators(spec: Spec, evaluation: Evaluation, comparison: Comparison) -> list[str]:
    """The evaluators under which every compared arm has a score, for every scheduled seed where seeds are used."""
    scores = [score for score in evaluation.scores if score.metric == comparison.metric]
    arms = set(comparison.arms) | ({BASE_ARM} & {score.arm for score in scores})
    seeds = _seeds(spec, scores)
    shared = []
    for evaluator in evaluation.evaluators:
        scored = {(score.arm, score.seed) for score in scores if score.evaluator == evaluator}
        if all(_is_scored(arm, seeds, scored) for arm in arms):
            shared.append(evaluator)
    return shared


def _is_scored(arm: str, seeds: frozenset[int], scored: set[tuple[str, int | None]]) -> bool:
    """The base model is not trained, so one score without a seed is enough for it."""
    if not seeds or arm == BASE_ARM:
        return any(scored_arm == arm for scored_arm, _ in scored)
    return all((arm, seed) in scored for seed in seeds)


def _seeds(spec: Spec, scores: Iterable[Score]) -> frozenset[int]:
    used = frozenset(score.seed for score in scores if score.seed is not None)
    rule = parse_decision_rule(spec).rule
    return frozenset(rule.seeds) if used and rule is not None else used


def _manifest_gaps(evaluation: Evaluation, shelf: EvidenceShelf) -> list[Problem]:
    found = []
    for evaluator in evaluation.evaluators.values():
        manifest = evaluator.manifest
        if manifest is None:
            continue
        file = shelf.find(manifest.name)
        if file is None or file.sha256 != manifest.sha256:
            path = f"evaluation.evaluators[{show(evaluator.id)}].items"
            expected = f"the retained file {show(manifest.name)} with the hash {manifest.sha256}"
            what = "no such file" if file is None else f"the hash {file.sha256}"
            found.append(Problem("R-131", path, expected, what, "Attach the manifest as it was frozen."))
    return found


def _conflicts(state: RunState) -> list[Problem]:
    """One arm, metric, seed and evaluator with two values, in one report or in two: choosing is not scoring (R-137)."""
    first: dict[tuple[str, str, int | None, str], tuple[int, Score]] = {}
    found = []
    for posted in state.posted.get("evaluation", ()):
        for score in parse_evaluation(posted.value).scores:
            key = (score.arm, score.metric, score.seed, score.evaluator)
            update, earlier = first.setdefault(key, (posted.update, score))
            if earlier.value != score.value:
                path = f"{score.path}.value in update {posted.update}"
                expected = f"{earlier.value!r}, as in {earlier.path} of update {update}"
                found.append(Problem("R-137", path, expected, show(score.value), "Keep one score."))
    return found


@dataclass(frozen=True)
class _PredictionCheck:
    false: tuple[Problem, ...] = ()
    gaps: tuple[Problem, ...] = ()


def _check_predictions(score: Score, evaluation: Evaluation, files: PredictionFiles) -> _PredictionCheck:
    """The predictions behind a score are retained, and their rows name the same arm, metric and evaluator (R-134)."""
    if score.predictions is None:
        return _PredictionCheck()
    path = f"{score.path}.predictions_ref"
    file = files.shelf.find(score.predictions)
    if file is None or file.kind != "predictions":
        found = "no such file" if file is None else f"a file of kind {file.kind}"
        action = "Attach the predictions as kind predictions."
        return _PredictionCheck(gaps=(Problem("R-133", path, "a retained file of kind predictions", found, action),))
    try:
        predictions = files.read(file.name)
    except EvidenceLost as lost:
        problem = Problem("R-16C", path, "the bytes that were accepted", str(lost), "Attach the file again, renamed.")
        return _PredictionCheck(gaps=(problem,))
    if predictions.bad_line is not None:
        found = f"line {predictions.bad_line} is not a row"
        action = "Write one JSON object with item_id, arm, prediction and reference per line."
        return _PredictionCheck(gaps=(Problem("R-16B", path, "JSON Lines of predictions", found, action),))
    rows = predictions.of(score.arm, score.metric, score.evaluator, score.seed)
    items = frozenset(str(row["item_id"]) for row in rows)
    expected_items = evaluation.evaluators[score.evaluator].items
    if not rows:
        expected = f"rows of {show(score.arm)}, {show(score.metric)} under this score's evaluator"
        action = "Score again with the evaluator that is claimed; rows are never relabelled."
        return _PredictionCheck(false=(Problem("R-134", path, expected, "none", action),))
    if expected_items is not None and items != frozenset(expected_items):
        expected = f"a row for each of the evaluator's {len(expected_items)} items"
        action = "Keep invalid outputs as rows; a failed item scores 0."
        return _PredictionCheck(gaps=(Problem("R-134", path, expected, f"{len(items)} other or fewer items", action),))
    return _check_values(score, [row["value"] for row in rows if "value" in row], path)


def _check_values(score: Score, values: Sequence[JsonValue], path: str) -> _PredictionCheck:
    """Prediction rows that carry a grade bear the score out (R-147)."""
    numbers = [value for value in values if is_number(value)]
    if not values or (len(numbers) == len(values) and abs(mean(numbers) - score.value) <= SCORE_TOLERANCE):
        return _PredictionCheck()
    expected = f"grades with the mean {score.value!r}, which is the score"
    found = f"the mean {mean(numbers)!r}" if len(numbers) == len(values) else "values that are no numbers"
    action = "Report the mean of the grades as they are."
    return _PredictionCheck(false=(Problem("R-147", path, expected, found, action),))


def _late_evaluators(state: RunState) -> tuple[Flag, ...]:
    """Evaluators that were first reported when scores existed already (R-138)."""
    known: set[str] = set()
    scored = False
    flags = []
    for posted in state.posted.get("evaluation", ()):
        evaluation = parse_evaluation(posted.value)
        if scored:
            late = sorted(set(evaluation.evaluators) - known)
            flags += [
                Flag("R-138", posted.update, f"introduces the evaluator {show(name)} after scoring.") for name in late
            ]
        known |= set(evaluation.evaluators)
        scored |= bool(evaluation.scores)
    return tuple(flags)
