"""The projection, and what it says about the budget (R-172, R-178)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from research_exchange.documents.feasibility import Feasibility, parse_feasibility
from research_exchange.documents.fields import is_number, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.run_state import Posted, RunState
from research_exchange.documents.spec import Spec
from research_exchange.feasibility.coverage import check_coverage
from research_exchange.feasibility.plan import Plan

__all__ = ["FeasibilityCheck", "FeasibilityStatus", "check_feasibility"]

_NOT_RECORDED = "Measured feasibility not recorded"
"""The whole answer where nothing was measured yet (R-022)."""


class FeasibilityStatus(StrEnum):
    """Whether the projection stays inside the budget."""

    FITS = "fits"
    EXCEEDS = "exceeds"
    """What is known of it alone is beyond the wall time or the GPU-hours."""
    UNKNOWN = "unknown"
    """Not measured, not in full, or not for what the run does now."""


@dataclass(frozen=True)
class FeasibilityCheck:
    """What a run's timings amount to."""

    status: FeasibilityStatus
    problems: tuple[Problem, ...]
    wall_seconds: float | None = None
    """All phases and the reserve; None where a part is missing."""
    gpu_hours: float | None = None
    """None where the allocation of a part is not known."""
    known_gpu_hours: float = 0
    """Of the parts whose allocation is known."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Projected seconds of each phase that was measured."""
    notes: tuple[str, ...] = ()
    """What a reader should know, although it changes nothing."""
    recorded: bool = True
    """False where no measurements were reported."""

    def to_json(self) -> dict[str, JsonValue]:
        """The object of R-178: `status`, `problems` as sentences, and the projection."""
        problems = [str(problem) for problem in self.problems] if self.recorded else [_NOT_RECORDED]
        return {
            "status": self.status.value,
            "problems": problems,
            "wall_seconds": self.wall_seconds,
            "gpu_hours": self.gpu_hours,
            "known_gpu_hours": self.known_gpu_hours,
            "phases": dict(self.phases),
        }


def check_feasibility(spec: Spec, state: RunState | None = None) -> FeasibilityCheck:
    """Projects the latest measurements of a run, or those that its spec holds. Never raises.

    Args:
        state: None where there is no run yet.
    """
    posted = state.latest("feasibility") if state is not None else None
    if posted is None:
        posted = Posted(0, spec.value.get("feasibility"))
    if posted.value is None:
        problem = Problem("R-170", "feasibility", "measured timings", "nothing", "Run a timing pilot and report it.")
        return FeasibilityCheck(FeasibilityStatus.UNKNOWN, (problem,), recorded=False)
    report = parse_feasibility(posted.value)
    plan = Plan(spec, state, report.effective_config, posted.update)
    stale = plan.differences()
    projection = _project(report)
    findings = Findings()
    for problem in stale:
        findings.miss(problem.rule, problem.path, problem.expected, problem.found, problem.action)
    is_over = _is_over_budget(spec, projection, findings)
    findings.add(report.findings)
    check_coverage(spec, plan, report, findings)
    return FeasibilityCheck(
        status=_status(findings, is_stale=bool(stale), is_over=is_over),
        problems=findings.problems,
        wall_seconds=projection.seconds if report.is_complete else None,
        gpu_hours=projection.gpu_hours if report.is_complete and projection.is_allocated else None,
        known_gpu_hours=projection.gpu_hours,
        phases=projection.phases,
        notes=tuple(_notes(state, report, projection)),
    )


def _status(findings: Findings, *, is_stale: bool, is_over: bool) -> FeasibilityStatus:
    """Timings of something else say nothing; beyond these, what is known to be too much stays too much."""
    if is_over and not is_stale:
        return FeasibilityStatus.EXCEEDS
    return FeasibilityStatus.UNKNOWN if findings.problems else FeasibilityStatus.FITS


@dataclass(frozen=True)
class _Projection:
    """Sums over what was measured; complete or not."""

    phases: Mapping[str, float]
    seconds: float
    """The reserve included."""
    gpu_hours: float
    """Of the parts whose allocation is known."""
    is_allocated: bool
    """Whether that of every part is."""


def _project(report: Feasibility) -> _Projection:
    phases = {name: phase.projected for name, phase in report.measurements.items()}
    parts = [*report.measurements.values(), *([report.recovery] if report.recovery is not None else [])]
    return _Projection(
        phases=phases,
        seconds=sum(part.projected for part in parts),
        gpu_hours=sum(part.projected * part.gpu_count / 3600 for part in parts if part.gpu_count is not None),
        is_allocated=all(part.gpu_count is not None for part in parts),
    )


def _is_over_budget(spec: Spec, projection: _Projection, findings: Findings) -> bool:
    budget = spec.section("budget")
    minutes, hours = budget.get("max_wall_minutes"), budget.get("gpu_hours")
    over = False
    for path, limit, projected in (
        ("wall_seconds", 60 * minutes if is_number(minutes) else None, projection.seconds),
        ("known_gpu_hours", hours if is_number(hours) else None, projection.gpu_hours),
    ):
        if limit is None:
            name = "max_wall_minutes" if path == "wall_seconds" else "gpu_hours"
            action = "Save a version of the spec with a budget."
            findings.miss("R-178", f"budget.{name}", "a number", show(budget.get(name)), action)
        elif projected > limit:
            over = True
            action = "Drop what is optional, then shorten training with a deviation; else stop as inconclusive."
            findings.miss("R-178", f"feasibility_check.{path}", f"at most {limit:g}", f"{projected:g}", action)
    return over


def _notes(state: RunState | None, report: Feasibility, projection: _Projection) -> Iterator[str]:
    if not projection.is_allocated:
        yield "The GPUs of a phase are not known, so GPU-hours are not known in full."
    if report.recovery is not None and not report.recovery.seconds:
        yield "Nothing is held back for recovery."
    for name, phase in report.measurements.items():
        if name != "setup" and not phase.seconds and phase.planned_units:
            yield f"The phase {show(name)} is said to take no time at all."
    first = state.posted["feasibility"][0].update if state is not None and state.posted.get("feasibility") else None
    if first is not None and state is not None and any(done < first for done in state.completed_comparison.values()):
        yield f"It was published first by update {first}, after an arm was completed."
