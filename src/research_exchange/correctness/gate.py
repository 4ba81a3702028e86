"""The correctness gate: a new loss or optimizer agrees with the stock one and with its reference (contract §9).

Nothing here was measured by the Exchange: every number is the runner's, and the gate says "reported" (R-10F).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from research_exchange.correctness.check import Correctness, check_correctness
from research_exchange.documents.correctness_plan import CorrectnessPlan, parse_plan
from research_exchange.documents.correctness_report import CorrectnessReport, parse_report
from research_exchange.documents.evidence import EvidenceLost, EvidenceShelf
from research_exchange.documents.fields import as_mapping, show, show_names
from research_exchange.documents.gates import Applicability, Flag, GateStatus, Problem, Reading
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.run_state import Posted, RunState
from research_exchange.documents.spec import Spec
from research_exchange.experiment_features import Answer, check_applicability

__all__ = ["correctness_applicability", "plan_problems", "read_correctness"]

_SECTION = "correctness_preflight"
_BASELINE = "baseline"
"""The role of an arm that trains on the stock loss and optimizer (R-14C)."""


def correctness_applicability(spec: Mapping[str, JsonValue], reports: Iterable[JsonValue]) -> Answer:
    """Whether the check applies: as the spec says; a report may ask for it as well, but never waive it (R-100)."""
    answer = check_applicability(spec, _SECTION)
    asked = any(as_mapping(report).get("required") is True for report in reports)
    if answer["status"] is Applicability.REQUIRED or not asked:
        return answer
    return {"status": Applicability.REQUIRED, "reason": "the run reports that it is required.", "conflict": False}


def plan_problems(spec: Spec) -> tuple[Problem, ...]:
    """What keeps the spec's plan from being accepted; R-109 where a reference is not pinned or there is no plan."""
    return parse_plan(spec.value.get(_SECTION)).gaps


def read_correctness(spec: Spec, state: RunState, shelf: EvidenceShelf) -> Reading:
    """Judges the latest report; earlier ones that failed stay visible, and what failed does not pass unchanged."""
    plan = parse_plan(spec.value.get(_SECTION))
    history = state.posted.get(_SECTION, ())
    reports = [parse_report(posted.value) for posted in history]
    checks = [check_correctness(plan, report) for report in reports]
    found = _unless_repeated(history, reports, checks) if checks else check_correctness(plan, None)
    first = next((p.update for p, c in zip(history, checks, strict=True) if c.status is GateStatus.PASSED), None)
    if found.status is GateStatus.PASSED and first is not None:
        found = _unless_late(spec, state, first, found)
    earlier_checks = zip(history[:-1], checks[:-1], strict=True)
    failures = [posted.update for posted, check in earlier_checks if check.status is GateStatus.FAILED]
    earlier = f" Earlier reports failed: update {', '.join(map(str, failures))}." if failures else ""
    return Reading(
        status=found.status,
        reason=found.reason + earlier,
        problems=found.problems,
        computed=_values(found),
        flags=(
            *_reference_flags(found, state.latest(_SECTION)),
            *_baseline_flags(state, first),
            *_input_flags(plan, reports[-1] if reports else None, shelf),
        ),
    )


def _unless_repeated(
    history: Sequence[Posted], reports: Sequence[CorrectnessReport], checks: Sequence[Correctness]
) -> Correctness:
    """The latest check. The same code does not first fail and then pass: one of both was measured otherwise (R-10A)."""
    latest = checks[-1]
    if latest.status is not GateStatus.PASSED:
        return latest
    failures: dict[tuple[str, str | None], int] = {}
    for posted, report, check in zip(history[:-1], reports[:-1], checks[:-1], strict=True):
        failed = {path.id for path in check.paths if path.status is GateStatus.FAILED}
        for entry in report.paths:
            if entry.id in failed:
                failures.setdefault((entry.id, entry.implementation_revision), posted.update)
    action = "Correct what failed and measure the new revision; choosing among measurements is not measuring."
    problems = tuple(
        Problem(
            rule="R-10A",
            path=f"{entry.path}.implementation_revision",
            expected=f"another revision than the one that failed in update {failures[key]}",
            found=show(entry.implementation_revision),
            action=action,
        )
        for entry in reports[-1].paths
        if (key := (entry.id, entry.implementation_revision)) in failures
    )
    if not problems:
        return latest
    reason = "What failed before is reported to pass without a change to the code."
    return replace(latest, status=GateStatus.UNVERIFIED, reason=reason, problems=problems[:MAX_PROBLEMS])


def _values(found: Correctness) -> dict[str, JsonValue]:
    """The numbers that decide, by name; all of them rest on what the runner reports."""
    values: dict[str, JsonValue] = {}
    for path in found.paths:
        for comparison in path.comparisons:
            name = f"{path.id}.{comparison.name}"
            values[f"{name}.max_abs_error"] = comparison.max_abs_error
            values[f"{name}.limit"] = comparison.limit
            if comparison.min_cosine is not None:
                values[f"{name}.cosine_similarity"] = comparison.cosine_similarity
        for scaling in path.lr_scaling:
            factor = "" if scaling.factor is None else f".{scaling.factor}"
            values[f"{path.id}.lr_scaling_error{factor}"] = scaling.error
    return values


def _reference_flags(found: Correctness, posted: Posted | None) -> list[Flag]:
    """What a reader has to know of the references, whose sizes are the runner's word (R-104, R-106)."""
    compared = [(f"{path.id}.{c.name}", c) for path in found.paths for c in path.comparisons]
    zero = [name for name, c in compared if c.zero_reference]
    wide = [name for name, c in compared if c.rests_on_reference and c.status is GateStatus.PASSED]
    flags = []
    if posted is not None and zero:
        text = f"reports a reference that is exactly 0 in {show_names(zero)}: the comparison shows little."
        flags.append(Flag("R-106", posted.update, text))
    if posted is not None and wide:
        text = f"reports an error beyond atol in {show_names(wide)}, which holds by the reported size of the loss."
        flags.append(Flag("R-104", posted.update, text))
    return flags


def _unless_late(spec: Spec, state: RunState, first: int, found: Correctness) -> Correctness:
    """The check comes before the runs that it guards: those of every arm that may use what is checked (R-100).

    An arm that the spec calls the baseline trains on what is stock, so it may have been first.

    Args:
        first: The first update whose check passes.
    """
    stock = {arm.name for arm in spec.arms if arm.role == _BASELINE or arm.is_trained is False}
    guarded = {arm: update for arm, update in state.completed_comparison.items() if arm not in stock}
    early = [arm for arm, update in guarded.items() if update <= first]
    if not early and first != state.final_update:
        return found
    what = f"when {show_names(early)} had been trained" if early else "by the final update"
    problem = Problem(
        rule="R-100",
        path=_SECTION,
        expected="a check that passes before any full run with what it checks",
        found=f"the first one that passes in update {first}, {what}",
        action="Measure and report before the full run; what was trained unchecked is trained again in a new run.",
    )
    return replace(found, status=GateStatus.UNVERIFIED, reason="The check holds, but too late.", problems=(problem,))


def _baseline_flags(state: RunState, first: int | None) -> list[Flag]:
    """What passed only after something was trained is remarked, whatever that was (R-100)."""
    trained = min(state.completed_comparison.values(), default=None)
    if first is None or trained is None or first < trained:
        return []
    return [Flag("R-100", first, f"is the first whose check passes; an arm was completed by update {trained}.")]


def _input_flags(plan: CorrectnessPlan, report: CorrectnessReport | None, shelf: EvidenceShelf) -> list[Flag]:
    """Probe scripts and fixed inputs are kept as evidence (R-10D)."""
    if report is None or plan.gaps or not report.paths:
        return []
    inputs = {path.input_sha256 for path in report.paths}
    kept = {file.sha256 for file in shelf.files if file.sha256 in inputs and _is_kept(shelf, file.name)}
    lost = [path.id for path in report.paths if path.input_sha256 is not None and path.input_sha256 not in kept]
    flags = []
    if lost:
        flags.append(Flag("R-10D", None, f"The run retains no file with the fixed input of {show_names(lost)}."))
    if not any(file.kind in ("probe", "script") for file in shelf.files):
        flags.append(Flag("R-10D", None, "The run retains no script that measured the reported errors."))
    return flags


def _is_kept(shelf: EvidenceShelf, name: str) -> bool:
    try:
        shelf.read(name)
    except EvidenceLost:
        return False
    return True
