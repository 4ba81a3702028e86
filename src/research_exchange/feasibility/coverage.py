"""Whether the timings cover all that a run does: the steps, the items, the generated tasks (R-174 to R-177)."""

from research_exchange.documents.feasibility import Feasibility, Generation
from research_exchange.documents.fields import is_same, show
from research_exchange.documents.findings import Findings
from research_exchange.documents.gates import Applicability
from research_exchange.documents.generation_audit import parse_contract
from research_exchange.documents.spec import Spec
from research_exchange.experiment_features import check_applicability
from research_exchange.feasibility.plan import Plan

__all__ = ["check_coverage"]

_PLAN_ALL = "Project everything that the primary comparison needs; drop what is optional first."
_GENERATION_PHASES = ("generation", "filter", "audit")


def check_coverage(spec: Spec, plan: Plan, report: Feasibility, findings: Findings) -> None:
    """Notes what the timings leave out."""
    _check_endpoint(spec, report, findings)
    _check_phases(spec, plan, report, findings)
    answer = check_applicability(spec.value, "generation_audit")["status"]
    if answer is Applicability.REQUIRED:
        _check_generation(spec, report, findings)
    elif answer is Applicability.UNKNOWN:
        path, found = "experiment_features.generated_training_data", "generated_training_data unresolved"
        action = "Declare it: tasks that may be generated have to be sized."
        findings.miss("R-177", path, "true or false", found, action)
    elif report.generates:
        action = "Leave it null, or declare generated_training_data."
        findings.miss("R-177", "feasibility.generation", "null, since the spec generates no tasks", "one", action)


def _check_endpoint(spec: Spec, report: Feasibility, findings: Findings) -> None:
    """A run that is made smaller keeps the endpoint it was made for (R-175)."""
    planned = spec.value.get("primary_endpoint")
    if not is_same(planned, report.primary_endpoint):
        action = "Shorten something else, or report the run as inconclusive."
        path = "feasibility.primary_endpoint"
        findings.miss("R-175", path, show(planned), show(report.primary_endpoint), action)


def _check_phases(spec: Spec, plan: Plan, report: Feasibility, findings: Findings) -> None:
    setup = report.measurements.get("setup")
    if setup is not None and (setup.units, setup.planned_units) != (1, 1):
        found = f"{setup.units} and {setup.planned_units}"
        action = "Report the whole setup, a fork included, as one."
        findings.miss("R-174", "feasibility.measurements.setup", "units 1 and planned_units 1", found, action)
    trained = sum(arm.is_trained is not False for arm in spec.arms) if spec.arms else 1
    steps, items = plan.number("steps"), plan.number("eval.n_examples")
    if steps is not None:
        _ask(report, "training", steps * trained, f"{show(steps)} steps of {trained} trained arms", findings)
    if items is not None:
        arms = len(spec.arms) or 1
        _ask(report, "evaluation", items * arms, f"{show(items)} items for each of {arms} arms", findings)


def _check_generation(spec: Spec, report: Feasibility, findings: Findings) -> None:
    for name in _GENERATION_PHASES:
        if name not in report.measurements:
            path, action = f"feasibility.measurements.{name}", "Time it too: the spec trains on generated tasks."
            findings.miss("R-177", path, "a measurement", "none that can be used", action)
    generation = report.generation
    if generation is None:
        if not report.generates:
            action = "Report what the pilot attempted and accepted."
            findings.miss("R-176", "feasibility.generation", "the measured yield", "nothing", action)
        return
    if generation.candidates is None:
        action = "A yield of nothing projects nothing: change the generator, and measure again."
        findings.miss("R-176", "feasibility.generation.accepted", "at least 1 accepted task", "0", action)
        return
    _check_yield(spec, report, generation, generation.candidates, findings)


def _check_yield(spec: Spec, report: Feasibility, generation: Generation, candidates: int, findings: Findings) -> None:
    samples = generation.filter_samples_per_candidate
    yielded = f"{generation.accepted} of {generation.attempted} accepted, {generation.target_accepted} wanted"
    audited = min(generation.target_accepted, parse_contract(spec.section("generation_audit")).sample_size)
    _ask(report, "generation", candidates, f"{candidates} candidates: {yielded}", findings, rule="R-176")
    _ask(
        report, "filter", candidates * samples, f"{samples} samples of {candidates} candidates", findings, rule="R-176"
    )
    _ask(report, "audit", audited, f"{audited} tasks solved again", findings, rule="R-176")


def _ask(
    report: Feasibility, phase: str, least: int | float, what: str, findings: Findings, *, rule: str = "R-174"
) -> None:
    """A phase plans for at least this many units; one that was not measured is named elsewhere."""
    measured = report.measurements.get(phase)
    if measured is not None and measured.planned_units < least:
        path = f"feasibility.measurements.{phase}.planned_units"
        findings.miss(rule, path, f"at least {least:g} ({what})", f"{measured.planned_units:g}", _PLAN_ALL)
