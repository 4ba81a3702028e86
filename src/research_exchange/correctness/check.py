"""Holds what was measured against what the spec planned (R-100 to R-10B).

The spec's tolerances alone decide, and only those of an accepted plan; a pass flag in the report is not looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from research_exchange.correctness.parity import lr_scaling_error
from research_exchange.documents.correctness_plan import (
    CorrectnessPlan,
    LrScaling,
    PlannedPath,
    Tolerance,
    is_scalar,
)
from research_exchange.documents.correctness_report import CorrectnessReport, Errors, Probe, ReportedPath
from research_exchange.documents.fields import show, show_names
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import GateStatus, Problem
from research_exchange.documents.observations import MAX_PROBLEMS

__all__ = ["ComparisonResult", "Correctness", "PathResult", "ScalingResult", "check_correctness"]

_SECTION = "correctness_preflight"
_ROUNDED = 0.2
"""How far numbers that a person rounded to a digit or two may be from the one that follows from the others."""
_STOP = "Stop before the full run: correct the implementation and measure again, with the tolerance as it is."
_MEASURE = "Measure it on the fixed input and report it before the full run."


@dataclass(frozen=True)
class ComparisonResult:
    """One comparison of a path, held against its tolerance."""

    name: str
    status: GateStatus
    max_abs_error: float | None
    limit: float | None
    """`atol + rtol * reference_max_abs`; None without the latter."""
    cosine_similarity: float | None
    min_cosine: float | None
    zero_reference: bool
    """The reference is exactly 0: nothing is wrong with that in a loss, but it shows little (R-106)."""
    rests_on_reference: bool
    """The error of a loss is beyond `atol`: it holds, if it does, by the size that is reported of the reference."""


@dataclass(frozen=True)
class ScalingResult:
    """The growth of one factor's updates with the learning rate."""

    factor: str | None
    """None where the update is probed as a whole."""
    status: GateStatus
    error: float | None
    """None where the probes cannot be used."""
    tolerance: float


@dataclass(frozen=True)
class PathResult:
    """What the report shows about one path of the plan."""

    id: str
    status: GateStatus
    comparisons: tuple[ComparisonResult, ...]
    lr_scaling: tuple[ScalingResult, ...]


@dataclass(frozen=True)
class Correctness:
    """What a report shows about a plan."""

    status: GateStatus
    reason: str
    problems: tuple[Problem, ...] = ()
    """What failed stands before what is missing."""
    paths: tuple[PathResult, ...] = ()
    """In the plan's order; none for a plan that is not accepted, or where nothing was reported."""


def check_correctness(plan: CorrectnessPlan, report: CorrectnessReport | None) -> Correctness:
    """Holds a report against a plan. Never raises.

    A plan that is not accepted leaves everything unverified, whatever was measured (R-109).

    Args:
        report: None where the run has not reported anything.
    """
    if plan.gaps:
        reason = "The spec has no accepted plan, so no measurement counts."
        return Correctness(GateStatus.UNVERIFIED, reason, plan.gaps[:MAX_PROBLEMS])
    if report is None:
        missing = Problem("R-100", _SECTION, "the measured errors of every planned path", "nothing", _MEASURE)
        return Correctness(GateStatus.UNVERIFIED, "Nothing was reported about the planned paths.", (missing,))
    findings = Findings()
    _check_report(plan, report, findings)
    entries = {path.id: [entry for entry in report.paths if entry.id == path.id] for path in plan.paths}
    paths = [_check_path(path, entries[path.id], findings) for path in plan.paths]
    return Correctness(
        status=findings.status,
        reason=_reason(findings.status, paths),
        problems=findings.problems,
        paths=tuple(paths),
    )


def _check_report(plan: CorrectnessPlan, report: CorrectnessReport, findings: Findings) -> None:
    """What the report says as a whole: it waives nothing, and names the plan's paths and no others."""
    findings.add_gaps(report.gaps)
    if report.required is not True:
        action = "The spec requires the check; a report cannot waive it."
        findings.miss("R-100", f"{_SECTION}.required", "true", show(report.required), action)
    planned = {path.id for path in plan.paths}
    for entry in report.paths:
        if not entry.id:
            findings.add_gaps(entry.gaps)
        elif entry.id not in planned:
            expected = f"a path of the spec's plan ({show_names(sorted(planned))})"
            action = "Request a revision of the spec that plans its check; choose no tolerance after measuring."
            findings.miss("R-10B", f"{entry.path}.id", expected, show(entry.id), action)


def _check_path(path: PlannedPath, reported: Sequence[ReportedPath], findings: Findings) -> PathResult:
    own = Findings()
    if len(reported) != 1:
        expected = f"the path {show(path.id)} once"
        found = f"it {len(reported)} times" if reported else "nothing about it"
        own.miss("R-10B", f"{_SECTION}.paths", expected, found, "Report every planned path, and each of them once.")
    comparisons: list[ComparisonResult] = []
    scaling: list[ScalingResult] = []
    for entry in reported:
        own.add_gaps(entry.gaps)
        _check_revisions(path, entry, own)
        for name, tolerance in path.tolerances.items():
            comparisons.append(_compare(name, tolerance, entry, own))
        if path.lr_scaling is not None:
            scaling += _check_scaling(path.lr_scaling, entry, own)
    findings.add(own)
    return PathResult(path.id, own.status, tuple(comparisons), tuple(scaling))


def _check_revisions(path: PlannedPath, entry: ReportedPath, findings: Findings) -> None:
    """Measured against the very code that the plan pins (R-10A)."""
    action = "Measure against the pinned revision, or request a revision of the spec."
    for name, planned, reported in (
        ("baseline_revision", path.baseline_revision, entry.baseline_revision),
        ("reference_revision", path.reference_revision, entry.reference_revision),
    ):
        if reported != planned:
            expected = f"{show(planned)}, as in the plan"
            findings.miss("R-10A", f"{entry.path}.{name}", expected, show(reported), action)


def _compare(name: str, tolerance: Tolerance, entry: ReportedPath, findings: Findings) -> ComparisonResult:
    """One comparison: inclusive, in plain double precision (R-104)."""
    own = Findings()
    errors = entry.errors.get(name)
    if errors is None:
        own.miss("R-103", f"{entry.path}.errors.{name}", "the four measured errors", "nothing", _MEASURE)
        errors = Errors(entry.path, None, None, None, None, ())
    largest, reference, cosine = errors.max_abs_error, errors.reference_max_abs, errors.cosine_similarity
    limit = None if reference is None else tolerance.limit(reference)
    if largest is not None and limit is not None and largest > limit:
        own.contradict("R-104", f"{errors.path}.max_abs_error", f"at most {limit!r}", repr(largest), _STOP)
    if cosine is not None and tolerance.min_cosine is not None and cosine < tolerance.min_cosine:
        own.contradict(
            "R-104", f"{errors.path}.cosine_similarity", f"at least {tolerance.min_cosine!r}", repr(cosine), _STOP
        )
    own.add_gaps(errors.gaps)
    own.add_gaps(_inconsistencies(name, errors, needs_cosine=tolerance.min_cosine is not None))
    findings.add(own)
    return ComparisonResult(
        name=name,
        status=own.status,
        max_abs_error=largest,
        limit=limit,
        cosine_similarity=cosine,
        min_cosine=tolerance.min_cosine,
        zero_reference=reference == 0,
        rests_on_reference=is_scalar(name) and largest is not None and largest > tolerance.limit(0),
    )


def _inconsistencies(name: str, errors: Errors, *, needs_cosine: bool) -> list[Problem]:
    """Numbers that cannot come from one measurement on a meaningful input (R-106)."""
    found = []
    if errors.reference_max_abs == 0 and not is_scalar(name):
        expected, action = "a reference that is not 0", "Choose a fixed input on which the reference does something."
        path = f"{errors.path}.reference_max_abs"
        found.append(Problem("R-106", path, expected, "0: a degenerate reference", action))
    elif needs_cosine and errors.cosine_similarity is None and not errors.gaps:
        expected = "a number in [-1, 1], for the plan's min_cosine"
        found.append(Problem("R-105", f"{errors.path}.cosine_similarity", expected, "nothing", _MEASURE))
    largest, reference, relative = errors.max_abs_error, errors.reference_max_abs, errors.relative_l2_error
    if not reference or largest is None or relative is None:
        return found
    path, action = f"{errors.path}.relative_l2_error", "Report both numbers of one measurement."
    if (largest == 0) != (relative == 0):
        expected = f"0 exactly where max_abs_error, {largest!r}, is 0"
        found.append(Problem("R-106", path, expected, repr(relative), action))
    elif is_scalar(name) and abs(relative * reference - largest) > _ROUNDED * largest:
        expected = f"{largest / reference:.3g}, which max_abs_error / reference_max_abs is for one number"
        found.append(Problem("R-106", path, expected, repr(relative), action))
    return found


def _check_scaling(plan: LrScaling, entry: ReportedPath, findings: Findings) -> list[ScalingResult]:
    """The scaling with the learning rate, for each factor by itself (R-107)."""
    path = f"{entry.path}.lr_scaling"
    findings.add_gaps(entry.scaling_gaps)
    probes: dict[str | None, list[Probe]] = {factor: [] for factor in plan.factors or ()}
    for probe in entry.probes:
        probes.setdefault(probe.factor, []).append(probe)
    strange = [factor for factor in probes if plan.factors is not None and factor not in plan.factors]
    if strange:
        expected = f"probes of the planned factors alone ({show_names(plan.factors or ())})"
        found = "a probe of no factor" if strange[0] is None else f"a probe of {show(strange[0])}"
        findings.miss("R-107", path, expected, found, _MEASURE)
    return [_scale(plan, factor, group, path, findings) for factor, group in (probes or {None: []}).items()]


def _scale(
    plan: LrScaling, factor: str | None, probes: Sequence[Probe], path: str, findings: Findings
) -> ScalingResult:
    own = Findings()
    of_factor = "" if factor is None else f" of {show(factor)}"
    rates = tuple(probe.learning_rate for probe in probes)
    if plan.learning_rates is not None and rates != plan.learning_rates:
        expected = f"probes{of_factor} at the planned learning rates, in their order: {_list(plan.learning_rates)}"
        own.miss("R-107", path, expected, _list(rates) or "none", _MEASURE)
    error = None
    try:
        error = lr_scaling_error([(probe.learning_rate, probe.update_norm) for probe in probes])
    except ValueError as unusable:
        expected = f"probes{of_factor} from which the scaling can be computed"
        own.miss("R-107", path, expected, f"others: {unusable}", _MEASURE)
    if error is not None and error > plan.tolerance:
        expected = f"norm / learning rate{of_factor} within {plan.tolerance!r} of the first probe's"
        own.contradict("R-107", path, expected, f"a relative change of {error!r}", _STOP)
    findings.add(own)
    return ScalingResult(factor, own.status, error, plan.tolerance)


def _list(rates: Sequence[float], limit: int = 10) -> str:
    shown = ", ".join(map(repr, rates[:limit]))
    return shown if len(rates) <= limit else f"{shown} and {len(rates) - limit} more"


def _reason(status: GateStatus, paths: Sequence[PathResult]) -> str:
    if status is GateStatus.PASSED:
        paths_held = "1 path agrees" if len(paths) == 1 else f"All {len(paths)} paths agree"
        return f"{paths_held} with the pinned references within the planned tolerances, as reported."
    if status is GateStatus.FAILED:
        return "A reported error is beyond the planned tolerance."
    return "What was reported does not show that the new path computes what it should."
