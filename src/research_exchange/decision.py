"""Recomputes the decision a spec prescribes from per-item rows (contract §12, decision-statistics.md §2, §4).

Nothing is inferred, clipped or dropped: either the rows are exactly the grid that the rule asks for, or nothing is
decided. An interval or a verdict that the runner states is not looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from research_exchange.decision_grid import Findings, Grid, check_grid
from research_exchange.decision_plan import rule_problems
from research_exchange.decision_sample import take_samples
from research_exchange.decision_verdict import CriterionState, Reached, intervals_of, outcome_of
from research_exchange.documents.decision_rule import Band, Criterion, DecisionRule, Multiplicity, parse_decision_rule
from research_exchange.documents.evaluation import Evaluation, parse_evaluation
from research_exchange.documents.evidence import EvidenceLost, EvidenceShelf
from research_exchange.documents.fields import as_mapping, is_sha256, is_text, is_whole, show, show_names
from research_exchange.documents.gates import GateStatus, Problem, Provenance
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import Observations, read_file, read_rows
from research_exchange.documents.run_state import OutcomeReason, RunState, Verdict
from research_exchange.documents.spec import Spec
from research_exchange.statistics import METHODS, Guarantee, Sample, seed_contrasts

__all__ = ["CriterionResult", "CriterionState", "Decision", "decide", "decide_run", "rule_problems"]


@dataclass(frozen=True)
class CriterionResult:
    """One criterion, recomputed. Numbers are in the metric's units."""

    id: str
    metric: str
    weights: Mapping[str, int | float]
    bounds: Band
    tie_band: Band | None
    evaluator: str
    means: Mapping[str, float]
    """Arm to its mean over items and seeds."""
    per_seed: Mapping[str, float]
    """Scheduled seed to its effect over all items: what the seeds say one by one."""
    n: int
    """Items, or training seeds where they are the unit."""
    clusters: int | None
    """Groups of items that may depend on each other; None where items are independent."""
    population: int | None
    """Items in the list that these are a random subset of; None where they stand for others like them."""
    alpha: float
    """Of this interval; below the rule's where its multiplicity asks for it."""
    effect: float
    half_width: float
    lower: float
    upper: float
    margin: int | float
    state: CriterionState


@dataclass(frozen=True)
class Decision:
    """The recomputed decision of a run (R-14D)."""

    status: GateStatus
    """`passed` says that the rows are complete and every criterion was computed, whatever came out."""
    verdict: Verdict = Verdict.INCONCLUSIVE
    outcome_reason: OutcomeReason = OutcomeReason.INSUFFICIENT_EVIDENCE
    criteria: tuple[CriterionResult, ...] = ()
    problems: tuple[Problem, ...] = ()
    method: str | None = None
    unit: str | None = None
    alpha: float | None = None
    multiplicity: Multiplicity | None = None
    guarantee: Guarantee | None = None
    """How far the method's error probability can be relied on."""
    condition: str | None = None
    """What a definitive verdict is conditional on; None where it is not."""
    seeds: tuple[int, ...] = ()
    rows: int = 0
    file: str | None = None
    """The observations file; None where the rows stand in the update itself."""
    file_sha256: str | None = None
    provenance: Provenance = Provenance.RECOMPUTED
    """Of every number here."""
    grids: Mapping[str, Grid] = field(default_factory=dict, repr=False, compare=False, metadata={"json": False})
    """Metric to the values that were decided on; empty unless the status is `passed`."""


@dataclass(frozen=True)
class _Source:
    """Where the rows of a decision come from."""

    observations: Observations
    path: str
    file: str | None = None
    file_sha256: str | None = None


def decide(spec: Spec, rows: Sequence[JsonValue], evaluation: JsonValue) -> Decision:
    """The decision that rows in hand lead to: what a runner calls to state its own verdict.

    Args:
        spec: A spec with a `decision_rule`.
        rows: Observation rows as JSON objects (R-141).
        evaluation: The `evaluation` part of the update that will carry them (R-130).
    """
    return _decide(spec, _Source(read_rows(rows, "decision.observations"), "decision.observations"), evaluation)


def decide_run(spec: Spec, state: RunState, shelf: EvidenceShelf) -> Decision:
    """The decision of a run, from the rows it reported last or from the retained file it named."""
    posted, evaluation = state.latest("decision"), state.latest("evaluation")
    if posted is None:
        action = "Report decision with observations, or with an observations_file that the run retains."
        missing = Problem("R-141", "decision", "the observations of the spec's decision_rule", "nothing", action)
        problems = (*parse_decision_rule(spec).problems, missing)
        reason = OutcomeReason.INCOMPLETE_EXECUTION
        return Decision(GateStatus.UNVERIFIED, outcome_reason=reason, problems=problems)
    return _decide(spec, _find_rows(posted.value, shelf), None if evaluation is None else evaluation.value)


def _decide(spec: Spec, source: _Source, reported_evaluation: JsonValue) -> Decision:
    parsed = parse_decision_rule(spec)
    if parsed.rule is None:
        return Decision(GateStatus.UNVERIFIED, problems=parsed.problems)
    rule = parsed.rule
    problems = rule_problems(rule) or source.observations.problems
    if problems:
        return _result(rule, source, GateStatus.UNVERIFIED, problems=problems)
    findings = Findings()
    grids = _grids(rule, source, parse_evaluation(reported_evaluation), findings)
    samples = take_samples(rule, grids, findings)
    if findings.problems:
        status = GateStatus.FAILED if findings.contradicted else GateStatus.UNVERIFIED
        reason = OutcomeReason.INCOMPLETE_EXECUTION if findings.incomplete else OutcomeReason.INSUFFICIENT_EVIDENCE
        return _result(rule, source, status, outcome_reason=reason, problems=tuple(findings.problems))
    criteria = tuple(
        _criterion(rule, criterion, grids[criterion.metric], sample, reached)
        for criterion, sample, reached in zip(rule.criteria, samples, intervals_of(rule, samples), strict=True)
    )
    outcome = outcome_of([criterion.state for criterion in criteria])
    return _result(rule, source, GateStatus.PASSED, outcome.verdict, outcome.reason, criteria=criteria, grids=grids)


def _result(
    rule: DecisionRule,
    source: _Source,
    status: GateStatus,
    verdict: Verdict = Verdict.INCONCLUSIVE,
    outcome_reason: OutcomeReason = OutcomeReason.INSUFFICIENT_EVIDENCE,
    *,
    criteria: tuple[CriterionResult, ...] = (),
    grids: Mapping[str, Grid] | None = None,
    problems: tuple[Problem, ...] = (),
) -> Decision:
    method = METHODS.get(rule.method)
    return Decision(
        status=status,
        verdict=verdict,
        outcome_reason=outcome_reason,
        criteria=criteria,
        problems=problems,
        method=rule.method,
        unit=rule.unit,
        alpha=rule.alpha,
        multiplicity=rule.multiplicity,
        guarantee=None if method is None else method.guarantee,
        condition=None if method is None else method.condition,
        seeds=rule.seeds,
        rows=len(source.observations),
        file=source.file,
        file_sha256=source.file_sha256,
        grids=grids or {},
    )


def _find_rows(reported: JsonValue, shelf: EvidenceShelf) -> _Source:
    decision = as_mapping(reported)
    version, inline, file = (decision.get(name) for name in ("version", "observations", "observations_file"))
    if not is_whole(version) or version != 1:
        return _no_rows(Problem("R-141", "decision.version", "1", show(version), "Report version 1."))
    if (inline is None) == (file is None):
        found = "neither" if inline is None else "both"
        expected = "exactly one of observations and observations_file"
        return _no_rows(Problem("R-141", "decision", expected, found, "Report the rows once."))
    if inline is not None:
        path = "decision.observations"
        return _Source(read_rows(inline, path), path)
    return _retained_rows(as_mapping(file), shelf)


def _retained_rows(reference: Mapping[str, JsonValue], shelf: EvidenceShelf) -> _Source:
    path, name, digest = "decision.observations_file", reference.get("name"), reference.get("sha256")
    if not is_text(name) or not is_sha256(digest):
        expected, action = "a file name and its sha256", "Name a file of kind metrics that this run retains."
        return _no_rows(Problem("R-142", path, expected, show(reference), action))
    file = shelf.find(name)
    if file is None or file.kind != "metrics" or file.sha256 != digest:
        expected = f"a retained file of kind metrics with the hash {digest}"
        found = "no such file" if file is None else f"{show(name)} of kind {file.kind} with the hash {file.sha256}"
        action = "Attach the rows as kind metrics under a new name, and report that name and hash."
        return _no_rows(Problem("R-142", path, expected, found, action))
    try:
        return _Source(read_file(shelf.read(name), name), name, name, digest)
    except EvidenceLost as lost:
        action = "Attach the rows again under a new name."
        return _no_rows(Problem("R-16C", path, "the bytes that were accepted", str(lost), action))


def _no_rows(problem: Problem) -> _Source:
    return _Source(Observations(problems=(problem,)), problem.path)


def _grids(rule: DecisionRule, source: _Source, evaluation: Evaluation, findings: Findings) -> dict[str, Grid]:
    rows, known = source.observations, frozenset(rule.metrics)
    if not known.issuperset(rows.metrics):
        expected = f"a metric of the rule ({show_names(rule.metrics)})"
        for place, metric in enumerate(rows.metrics):
            if metric not in known:
                findings.add("R-143", f"{source.path}[{place}].metric", expected, show(metric))
    grids = {
        metric: check_grid(rule, metric, of_metric, source.path, evaluation, findings)
        for metric, of_metric in rows.by_metric(rule.metrics).items()
    }
    return {metric: grid for metric, grid in grids.items() if grid is not None}


def _criterion(
    rule: DecisionRule, criterion: Criterion, grid: Grid, sample: Sample, reached: Reached
) -> CriterionResult:
    interval = reached.interval
    columns = {arm: [grid.column(arm, seed) for seed in rule.seeds] for arm in criterion.weights}
    return CriterionResult(
        id=criterion.id,
        metric=criterion.metric,
        weights=criterion.weights,
        bounds=criterion.bounds,
        tie_band=criterion.tie_band,
        evaluator=grid.evaluator,
        means={arm: grid.mean_of(arm) for arm in criterion.weights},
        per_seed=dict(zip(map(str, rule.seeds), seed_contrasts(criterion.weights, columns), strict=True)),
        n=interval.n,
        clusters=len(sample.clusters) or None,
        population=sample.population,
        alpha=reached.alpha,
        effect=interval.effect,
        half_width=interval.half_width,
        lower=interval.lower,
        upper=interval.upper,
        margin=criterion.margin,
        state=reached.state,
    )
