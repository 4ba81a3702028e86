"""The activation gate: did a short pilot in the exact regime show the treatment at work (contract §10)?

The spec's ranges alone decide (R-124); a range or a pass flag in the report is not looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from research_exchange.documents.fields import as_list, as_mapping, is_number, is_same, is_text, show
from research_exchange.documents.gates import GateStatus, Problem
from research_exchange.documents.json import JsonValue
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.documents.run_state import Posted, RunState
from research_exchange.documents.spec import Spec

__all__ = ["Activation", "activation_problems", "check_activation", "plan_problems"]

_LIMITS = ("min", "max", "one_of")
_TREATMENT = "treatment"
"""The role of the arm whose mechanism is looked at before it trains."""


@dataclass(frozen=True)
class Activation:
    """What the calibrations show."""

    status: GateStatus
    reason: str
    problems: tuple[Problem, ...] = ()
    values: Mapping[str, JsonValue] | None = None
    """The latest calibration, extra values included (R-126)."""
    update: int | None = None
    earlier_failures: tuple[int, ...] = ()
    """Updates whose calibration did not pass before the latest one."""


def check_activation(spec: Spec, state: RunState) -> Activation:
    """Judges the latest calibration; earlier ones that did not pass stay visible (R-126).

    A missing value is unverified while the run goes on and failed once it has ended (R-123).
    """
    checks = as_list(spec.section("activation_gate").get("checks"))
    malformed = plan_problems(spec)
    if malformed:
        return Activation(GateStatus.UNVERIFIED, "The spec's activation checks cannot be applied.", malformed)
    history = state.posted.get("activation_calibration", ())
    if not history:
        problem = Problem(
            "R-123", "activation_calibration", "the values of a short pilot", "nothing", "Report them before training."
        )
        return Activation(_if_missing(state), "No calibration was reported.", (problem,))
    latest = history[-1]
    problems = activation_problems(spec, latest.value)
    status = _status(spec, state, latest) if problems else GateStatus.PASSED
    reason = _reason(len(checks), len(_unmet(spec, latest.value)))
    if status is GateStatus.PASSED and not any(_is_in_time(spec, state, posted) for posted in history):
        problem = _too_late(latest)
        status, reason, problems = GateStatus.UNVERIFIED, "The checks hold, but too late.", (problem,)
    return Activation(
        status=status,
        reason=reason,
        problems=problems,
        values=_values(latest.value),
        update=latest.update,
        earlier_failures=tuple(entry.update for entry in history[:-1] if _unmet(spec, entry.value)),
    )


def plan_problems(spec: Spec) -> tuple[Problem, ...]:
    """What keeps the spec's checks from being applied (R-121). Never raises."""
    checks = [as_mapping(entry) for entry in as_list(spec.section("activation_gate").get("checks"))]
    if not checks:
        return (_malformed("activation_gate.checks", "at least one check", "none"),)
    problems, seen = [], set()
    for index, check in enumerate(checks):
        path, metric = f"activation_gate.checks[{index}]", check.get("metric")
        if not is_text(metric) or metric in seen:
            problems.append(_malformed(f"{path}.metric", "the name of a metric that no other check has", show(metric)))
        elif not _is_applicable(check):
            expected = "min and/or max, numbers with min ≤ max, or a non-empty one_of instead"
            problems.append(_malformed(path, expected, show({key: check[key] for key in _LIMITS if key in check})))
        seen.add(str(metric))
    return tuple(problems[:MAX_PROBLEMS])


def activation_problems(spec: Spec, calibration: JsonValue) -> tuple[Problem, ...]:
    """What a calibration misses: one problem per check not met, up to `MAX_PROBLEMS`. Never raises."""
    action = "Do not start full training: diagnose, and report the run as inconclusive."
    return tuple(
        Problem("R-123", f"activation_calibration.values.{check.metric}", check.wanted, show(check.value), action)
        for check in islice(_unmet(spec, calibration), MAX_PROBLEMS)
    )


@dataclass(frozen=True)
class _Unmet:
    metric: str
    wanted: str
    value: JsonValue
    """None where it was not reported."""


def _unmet(spec: Spec, calibration: JsonValue) -> list[_Unmet]:
    values = _values(calibration)
    checks = [as_mapping(entry) for entry in as_list(spec.section("activation_gate").get("checks"))]
    return [
        _Unmet(str(check.get("metric")), _wanted(check), values.get(str(check.get("metric"))))
        for check in checks
        if not _meets(check, values.get(str(check.get("metric"))))
    ]


def _meets(check: Mapping[str, JsonValue], value: JsonValue) -> bool:
    if "one_of" in check:
        return value is not None and any(is_same(value, allowed) for allowed in as_list(check["one_of"]))
    low, high = check.get("min"), check.get("max")
    return is_number(value) and (not is_number(low) or low <= value) and (not is_number(high) or value <= high)


def _wanted(check: Mapping[str, JsonValue]) -> str:
    if "one_of" in check:
        return f"one of {', '.join(show(allowed) for allowed in as_list(check['one_of']))}"
    low, high = check.get("min"), check.get("max")
    parts = [f"at least {show(low)}"] * (low is not None) + [f"at most {show(high)}"] * (high is not None)
    return f"a finite number, {' and '.join(parts)}"


def _status(spec: Spec, state: RunState, latest: Posted) -> GateStatus:
    """Of a calibration that does not hold."""
    unmet = _unmet(spec, latest.value)
    return _if_missing(state) if all(check.value is None for check in unmet) else GateStatus.FAILED


def _is_in_time(spec: Spec, state: RunState, posted: Posted) -> bool:
    """Whether a calibration holds and came while there was still an arm to train, the treatment among them (R-122)."""
    if posted.update == state.final_update or _unmet(spec, posted.value):
        return False
    treated = [arm.name for arm in spec.arms if arm.role == _TREATMENT]
    if any(state.completed_arms.get(arm, posted.update + 1) <= posted.update for arm in treated):
        return False
    return not spec.arms or any(
        state.completed_arms.get(arm, posted.update + 1) > posted.update for arm in spec.arm_names
    )


def _too_late(latest: Posted) -> Problem:
    expected = "values that hold, posted before the treatment or the last arm was completed"
    action = "Report the pilot before any full training; what comes after it guards nothing."
    return Problem(
        "R-122",
        "activation_calibration",
        expected,
        f"the first such values too late, by update {latest.update}",
        action,
    )


def _if_missing(state: RunState) -> GateStatus:
    return GateStatus.FAILED if state.is_final else GateStatus.UNVERIFIED


def _reason(checks: int, failures: int) -> str:
    if not failures:
        return f"{checks} of {checks} activation checks hold, as reported."
    return f"{failures} of {checks} activation checks do not hold."


def _values(calibration: JsonValue) -> Mapping[str, JsonValue]:
    return as_mapping(as_mapping(calibration).get("values"))


def _is_applicable(check: Mapping[str, JsonValue]) -> bool:
    low, high, one_of = check.get("min"), check.get("max"), check.get("one_of")
    if "one_of" in check:
        return bool(as_list(one_of)) and low is None and high is None
    ends = [end for end in (low, high) if end is not None]
    numbers = [end for end in ends if is_number(end)]
    return bool(numbers) and len(numbers) == len(ends) and numbers == sorted(numbers)


def _malformed(path: str, expected: str, found: str) -> Problem:
    return Problem("R-121", path, expected, found, "Save a corrected version of the spec.")
