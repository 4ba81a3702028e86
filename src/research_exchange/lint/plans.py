"""The plans that a run will be judged by: a gate whose plan cannot be applied can never pass."""

from collections.abc import Iterator

from research_exchange import activation, correctness, generation_audit, restoration, selection
from research_exchange.documents.fields import as_list, as_mapping, is_text, is_whole, show
from research_exchange.documents.gates import Applicability, Problem
from research_exchange.documents.spec import Spec
from research_exchange.experiment_features import check_applicability
from research_exchange.feasibility import check_feasibility
from research_exchange.lint.findings import Finding, Level, error, of_problem, warning
from research_exchange.lint.prose import is_open

__all__ = [
    "activation_plan",
    "audit_plan",
    "correctness_plan",
    "feasibility_plan",
    "learning_rate_grids",
    "pins",
    "restoration_plan",
    "selection_plan",
]

_STRUCTURE = {"R-090": "R-034", "R-09B": "R-034", "R-09C": "R-034", "R-121": "R-034"}
"""From the rule that refuses a plan to the rule of lint."""


def correctness_plan(spec: Spec) -> Iterator[Finding]:
    """R-033: paths with every tolerance, wherever a loss or an optimizer is custom."""
    if _is_required(spec, "correctness_preflight"):
        for problem in correctness.plan_problems(spec):
            if not _is_pin(problem):
                yield of_problem(problem, Level.ERROR, {problem.rule: "R-033"})
    elif _is_unknown(spec, "correctness_preflight"):
        text = (
            "Nothing says whether the loss or the optimizer is custom, and there is no plan. If one of them is, the "
            "check is required and stays unverified whatever is measured: declare custom_loss and custom_optimizer, "
            "and plan paths with pinned revisions and tolerances."
        )
        yield warning("R-033", "correctness_preflight", text)


def pins(spec: Spec) -> Iterator[Finding]:
    """R-033: what is not pinned blocks a run, and not the saving of a version."""
    if not _is_required(spec, "correctness_preflight"):
        return
    unpinned = {problem.path: problem for problem in correctness.plan_problems(spec) if _is_pin(problem)}
    for problem in unpinned.values():
        text = (
            f"Expected {problem.expected}, found {problem.found}. Until a revised version pins it, the correctness "
            "check of every run is unverified, whatever was measured (R-109), and no verdict stands."
        )
        yield warning("R-033", problem.path, text)
    for index, entry in enumerate(as_list(spec.section("correctness_preflight").get("paths"))):
        for name in ("reference_revision", "baseline_revision"):
            path, revision = f"correctness_preflight.paths[{index}].{name}", as_mapping(entry).get(name)
            if is_text(revision) and is_open(revision) and path not in unpinned:
                text = f"{show(revision)} counts as pinned, and reads as if it were not. Name one state of the code."
                yield warning("R-033", path, text)


def activation_plan(spec: Spec) -> Iterator[Finding]:
    """R-034."""
    if _is_required(spec, "activation_gate") or spec.section("activation_gate").get("checks"):
        for problem in activation.plan_problems(spec):
            yield of_problem(problem, Level.ERROR, _STRUCTURE)


def restoration_plan(spec: Spec) -> Iterator[Finding]:
    """R-034, R-036."""
    if _is_required(spec, "restoration_preflight") or spec.section("restoration_preflight").get("groups"):
        for problem in restoration.plan_problems(spec):
            yield of_problem(problem, Level.ERROR, _STRUCTURE)


def audit_plan(spec: Spec) -> Iterator[Finding]:
    """R-032."""
    if _is_required(spec, "generation_audit"):
        for problem in generation_audit.plan_problems(spec):
            yield of_problem(problem, Level.ERROR, {problem.rule: "R-032"})


def selection_plan(spec: Spec) -> Iterator[Finding]:
    """R-151, R-153."""
    if _is_required(spec, "selection"):
        for problem in selection.plan_problems(spec):
            yield of_problem(problem, Level.ERROR, {})


def learning_rate_grids(spec: Spec) -> Iterator[Finding]:
    """R-152: of one or two rates, each is an edge."""
    for index, entry in enumerate(as_list(spec.value.get("arms"))):
        grid = as_list(as_mapping(entry).get("lr_grid"))
        if 0 < len(grid) < 3:
            text = (
                f"A grid of {len(grid)} has only edges, and a rate selected at an edge keeps the verdict inconclusive. "
                "List three rates or more."
            )
            yield error("R-152", f"arms[{index}].lr_grid", text)


def feasibility_plan(spec: Spec) -> Iterator[Finding]:
    """R-170 to R-178: whether anything measured says that the run fits its budget."""
    if spec.value.get("feasibility") is not None:
        for problem in check_feasibility(spec).problems:
            yield of_problem(problem, Level.WARNING, {problem.rule: "R-170"})
        return
    budget = spec.section("budget")
    text = (
        f"Nothing measured says that {_size(spec)} fit into {show(budget.get('max_wall_minutes'))} minutes and "
        f"{show(budget.get('gpu_hours'))} GPU-hours. Time a short pilot and record it, evaluation and setup included."
    )
    yield warning("R-170", "feasibility", text)
    if spec.value.get("feasibility_required") is True and not is_text(spec.value.get("primary_endpoint")):
        text = "Name the endpoint that a projection has to keep when the run is made smaller."
        yield warning("R-175", "primary_endpoint", text)


def _size(spec: Spec) -> str:
    steps, items = spec.value.get("steps"), spec.section("eval").get("n_examples")
    arms = f"{len(spec.arms)} arms" if spec.arms else "all arms"
    work = f"{steps} steps" if is_whole(steps) else "the steps"
    return f"{work} and an evaluation of {items} items for {arms}" if is_whole(items) else f"{work} of {arms}"


def _is_pin(problem: Problem) -> bool:
    """A plan without any path is no matter of pinning."""
    return problem.rule == "R-109" and not problem.path.endswith(".paths")


def _is_required(spec: Spec, check: str) -> bool:
    return check_applicability(spec.value, check)["status"] is Applicability.REQUIRED


def _is_unknown(spec: Spec, check: str) -> bool:
    return check_applicability(spec.value, check)["status"] is Applicability.UNKNOWN
