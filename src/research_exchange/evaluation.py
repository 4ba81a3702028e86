"""Evaluator comparability: every compared arm was scored by one and the same frozen evaluator (contract §11)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from research_exchange.deviations import Deviations, Recording
from research_exchange.documents.decision_rule import DecisionRule, parse_decision_rule
from research_exchange.documents.evaluation import Comparison, Evaluation, Score, evaluator_id
from research_exchange.documents.evidence import EvidenceShelf
from research_exchange.documents.fields import as_list, as_mapping, is_number, is_text, show, show_names
from research_exchange.documents.gates import Flag, GateStatus, Problem
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.run_state import RunState
from research_exchange.documents.spec import BASE_ARM, Spec
from research_exchange.prediction_checks import backed_scores, check_predictions
from research_exchange.predictions import PredictionFiles
from research_exchange.seed_copies import copied_answers, copied_files

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


def check_comparability(
    spec: Spec, state: RunState, predictions: PredictionFiles, deviations: Deviations
) -> Comparability:
    """Judges the latest `evaluation` report: evaluators are what they say, and each comparison has one in common."""
    posted = state.latest("evaluation")
    if posted is None:
        problem = Problem("R-130", "evaluation", "evaluators and scores", "nothing", "Report them with the scores.")
        return Comparability(GateStatus.UNVERIFIED, "No evaluation was reported.", (problem,))
    evaluation = state.evaluation
    false = [problem for evaluator in evaluation.evaluators.values() for problem in evaluator.contradictions]
    gaps = [*evaluation.gaps, *(gap for evaluator in evaluation.evaluators.values() for gap in evaluator.gaps)]
    rule = parse_decision_rule(spec).rule
    gaps += _manifest_gaps(evaluation, predictions.shelf) + _conflicts(rule, state)
    gaps += _unstated_changes(state, deviations)
    check = check_predictions(evaluation, predictions, _trained(state))
    false += (*check.false, *copied_files(spec, evaluation, predictions))
    gaps += check.gaps
    comparisons = _comparisons(rule, evaluation)
    scored = _by_metric(rule, evaluation)
    shared = {c.path: scored[c.metric].shared(c.arms) if c.metric in scored else [] for c in comparisons}
    gaps += _unshared(comparisons, shared)
    gaps += _uncompared(spec, comparisons) if rule is None else []
    status = GateStatus.FAILED if false else GateStatus.UNVERIFIED if gaps else GateStatus.PASSED
    return Comparability(
        status=status,
        reason=_REASONS[status],
        problems=tuple((false + gaps)[:MAX_PROBLEMS]),
        shared={c.metric: shared[c.path][0] for c in comparisons if shared[c.path]},
        flags=(
            *_timing_flags(rule, state),
            *_stranger_flags(spec, state),
            *_ungraded_flags(rule, posted.update, evaluation, predictions),
            *copied_answers(spec, evaluation, predictions, posted.update),
        ),
    )


_REASONS = {
    GateStatus.PASSED: "Every compared arm has a score from the same evaluator.",
    GateStatus.FAILED: "An evaluator or its predictions are not what they are said to be.",
    GateStatus.UNVERIFIED: "The compared arms cannot be shown to have been scored alike.",
}


def _comparisons(rule: DecisionRule | None, evaluation: Evaluation) -> list[Comparison]:
    """What the runner compares and what the spec's rule compares."""
    prescribed = [
        Comparison(f"decision_rule.criteria[{show(criterion.id)}]", criterion.metric, tuple(criterion.weights))
        for criterion in (rule.criteria if rule is not None else ())
    ]
    return [*evaluation.comparisons, *prescribed]


@dataclass(frozen=True)
class _Scored:
    """Who scored which arm on one metric."""

    seeds: frozenset[int]
    """Asked of every trained arm; empty where no score has a seed."""
    arms: Mapping[str, Mapping[str, frozenset[int | None]]]
    """Evaluator, arm, seeds."""

    def shared(self, compared: Sequence[str]) -> list[str]:
        """The evaluators under which every compared arm, and the base model if it was ever scored, has its scores."""
        has_base = any(BASE_ARM in arms for arms in self.arms.values())
        wanted = (*compared, BASE_ARM) if has_base else compared
        return [evaluator for evaluator, arms in self.arms.items() if all(self._is_scored(arms, arm) for arm in wanted)]

    def _is_scored(self, arms: Mapping[str, frozenset[int | None]], arm: str) -> bool:
        """The base model is not trained, so one score without a seed is enough for it."""
        return arm in arms and (arm == BASE_ARM or self.seeds <= arms[arm])


def _by_metric(rule: DecisionRule | None, evaluation: Evaluation) -> dict[str, _Scored]:
    found: dict[str, dict[str, dict[str, set[int | None]]]] = {}
    used: dict[str, set[int]] = {}
    for score in evaluation.scores:
        evaluators = found.setdefault(score.metric, {name: {} for name in evaluation.evaluators})
        evaluators[score.evaluator].setdefault(score.arm, set()).add(score.seed)
        used.setdefault(score.metric, set()).update(() if score.seed is None else (score.seed,))
    return {
        metric: _Scored(
            seeds=frozenset(rule.seeds if used[metric] and rule is not None else used[metric]),
            arms={name: {arm: frozenset(seeds) for arm, seeds in arms.items()} for name, arms in evaluators.items()},
        )
        for metric, evaluators in found.items()
    }


def _unshared(comparisons: Sequence[Comparison], shared: Mapping[str, Sequence[str]]) -> list[Problem]:
    """`shared` is by path of the comparison."""
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
        if not shared[comparison.path]
    ]


def _uncompared(spec: Spec, comparisons: Sequence[Comparison]) -> list[Problem]:
    """Where no rule says what is compared, every arm of the spec is: leaving one out is choosing (R-063, R-135)."""
    compared = {arm for comparison in comparisons for arm in comparison.arms}
    missing = [arm for arm in spec.arm_names if arm not in compared]
    if not comparisons or not missing:
        return []
    found, action = f"nothing about {show_names(missing)}", "Compare every arm that the spec names."
    return [Problem("R-135", "evaluation.comparisons", "comparisons of all arms", found, action)]


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


def _conflicts(rule: DecisionRule | None, state: RunState) -> list[Problem]:
    """One arm, metric, seed and evaluator with two values, in one report or in two: choosing is not scoring (R-137).

    Where the rule schedules one seed, a score without a seed is a score of that one.
    """
    only = rule.seeds[0] if rule is not None and len(rule.seeds) == 1 else None
    first: dict[tuple[str, str, int | None, str], tuple[int, Score]] = {}
    found = []
    for number, evaluation in state.evaluations:
        for score in evaluation.scores:
            key = (score.arm, score.metric, only if score.seed is None else score.seed, score.evaluator)
            update, earlier = first.setdefault(key, (number, score))
            if earlier.value != score.value:
                path = f"{score.path}.value in update {number}"
                expected = f"{earlier.value!r}, as in {earlier.path} of update {update}"
                found.append(Problem("R-137", path, expected, show(score.value), "Keep one score."))
    return found


def _trained(state: RunState) -> dict[str, set[str]]:
    """Checkpoint URI to the arms that it was reported as a checkpoint of (R-160)."""
    arms: dict[str, set[str]] = {}
    for posted in state.posted.get("evidence", ()):
        for entry in as_list(as_mapping(posted.value).get("checkpoints")):
            arm, uri = (as_mapping(entry).get(name) for name in ("arm", "uri"))
            if is_text(arm) and is_text(uri):
                arms.setdefault(uri, set()).add(arm)
    return arms


def _unstated_changes(state: RunState, deviations: Deviations) -> list[Problem]:
    """Another evaluator, once there are scores to look at, is a deviation that is stated before it scores (R-130).

    Each such change asks for one of its own: to try evaluators until one fits is not to score (R-136).
    """
    introduced: dict[str, int] = {}
    scored: dict[tuple[str, str], int] = {}
    for update, evaluation in state.evaluations:
        for name, evaluator in evaluation.evaluators.items():
            if not evaluator.problems:
                introduced.setdefault(name, update)
        for score in evaluation.scores:
            scored.setdefault((score.evaluator, score.metric), update)
    changed: dict[str, int] = {}
    for (name, metric), update in scored.items():
        looks = [at for (other, same), at in scored.items() if same == metric and other != name]
        if any(at < introduced.get(name, 0) for at in looks):
            changed[name] = min(update, changed.get(name, update))
    stated = [
        item.update
        for item in deviations.items
        if item.field.strip().lower() == "evaluator" and item.recording is not Recording.UNRECORDED
    ]
    found = []
    for number, (name, update) in enumerate(sorted(changed.items(), key=lambda each: each[1]), start=1):
        if (in_time := sum(at <= update for at in stated)) < number:
            expected = (
                f"a deviation in evaluator for each new one, stated in a running update: {number} by update {update}"
            )
            what = f"scores of it after scores of another, and {in_time or 'none'} stated"
            action = "Freeze the evaluator before anything is scored, or state the change before scoring with it."
            found.append(Problem("R-130", f"evaluation.evaluators[{show(name)}]", expected, what, action))
    return found


def _ungraded_flags(
    rule: DecisionRule | None, update: int, evaluation: Evaluation, predictions: PredictionFiles
) -> list[Flag]:
    """Rows without an answer that are not graded as failures, beside a score that is no failure throughout (R-134)."""
    criteria = () if rule is None else rule.criteria
    flags = []
    for score, rows in islice(backed_scores(evaluation, predictions), MAX_PROBLEMS):
        low = min((criterion.bounds.low for criterion in criteria if criterion.metric == score.metric), default=0)
        silent = [row for row in rows if row["prediction"] is None or row["prediction"] == ""]
        passing = sum(not (is_number(grade := row.get("value")) and grade <= low) for row in silent)
        if passing and score.value > low:
            text = f"has no answer in {passing} of {len(rows)} predictions of {show(score.arm)} on {show(score.metric)}"
            flags.append(
                Flag("R-134", update, f"{text}, and no grade {show(low)} either: nobody can grade them again.")
            )
    return flags


def _timing_flags(rule: DecisionRule | None, state: RunState) -> tuple[Flag, ...]:
    """Evaluators that were first on record together with scores, or after them: nothing shows that they were frozen.

    A value that an arm was reported with under the same name, in `metrics.arms`, is a score as well (R-130, R-138).
    An evaluator whose key is not its hash, or whose provenance is incomplete, is not on record yet.
    """
    first_metrics = _first_metrics(state)
    known: set[str] = set()
    scored = False
    flags = []
    for update, evaluation in state.evaluations:
        sound = {name for name, evaluator in evaluation.evaluators.items() if not evaluator.problems}
        new = sorted(sound - known)
        metrics = {score.metric for score in evaluation.scores} | {c.metric for c in _comparisons(rule, evaluation)}
        scored |= any(first_metrics.get(metric, update) < update for metric in metrics)
        known |= set(new)
        if new and scored:
            text = f"introduces {_evaluators(new)} after scoring."
            flags.append(Flag("R-138", update, text))
        elif any(score.evaluator in new for score in evaluation.scores):
            text = f"introduces {_evaluators(new)} together with its scores; nothing shows that it was frozen before."
            flags.append(Flag("R-130", update, text))
        scored |= bool(evaluation.scores)
    return tuple(flags)


def _evaluators(names: Sequence[str]) -> str:
    return f"the evaluator{'s' * (len(names) > 1)} {show_names(names)}"


def _first_metrics(state: RunState) -> dict[str, int]:
    """Metric to the update that first reported it of any arm."""
    first: dict[str, int] = {}
    for metrics in state.arms.values():
        for name, history in metrics.items():
            update = history.values[0].update
            first[name] = min(update, first.get(name, update))
    return first


def _stranger_flags(spec: Spec, state: RunState) -> tuple[Flag, ...]:
    """Scores of arms that the spec does not have count for nothing (R-008)."""
    known = {*spec.arm_names, BASE_ARM}
    flags = []
    for update, evaluation in state.evaluations if spec.arms else ():
        strangers = sorted({score.arm for score in evaluation.scores} - known)
        known |= set(strangers)
        if strangers:
            flags.append(Flag("R-008", update, f"scores {show_names(strangers)}, which the spec does not name."))
    return tuple(flags)
