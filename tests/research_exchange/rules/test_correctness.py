"""The correctness gate: the helpers' numbers and every row of contract §9."""

import math
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.correctness import check_correctness, lr_scaling_error, parity_errors, plan_problems
from research_exchange.documents import GateStatus
from research_exchange.documents.correctness_plan import parse_plan
from research_exchange.documents.correctness_report import MAX_PATHS, parse_report
from research_exchange.documents.gates import GateResult
from research_exchange.documents.observations import MAX_PROBLEMS
from research_exchange.judgment import Judgment, judge
from tests.research_exchange.rules.support import file_of, patched, spec_of, updates_of, vectors
from tests.research_exchange.rules.test_documents import json_values

VECTORS = vectors("correctness")
CASES = {case["name"]: case for case in VECTORS["cases"]}
LOSS = VECTORS["bases"]["loss"]


def document(case: dict[str, Any]) -> dict[str, Any]:
    """The case's spec, and its report where there is one."""
    patched_base: dict[str, Any] = patched(VECTORS["bases"][case["base"]], case["patch"])
    return patched_base


def judged(spec: Any, *reports: Any, **options: Any) -> Judgment:
    updates = [{"status": "running", "correctness_preflight": report} for report in reports]
    return judge(spec_of(spec), updates_of(updates or [{"status": "running"}]), [], **options)


def gate_of(judgment: Judgment) -> GateResult:
    return judgment.gate("correctness_preflight")


@pytest.mark.parametrize("case", VECTORS["parity_errors"], ids=lambda case: str(case["actual"]))
def test_parity_errors(case: dict[str, Any]) -> None:
    found = parity_errors(case["actual"], case["reference"])
    assert found.keys() == case["errors"].keys()
    for name, value in found.items():
        expected = case["errors"][name]
        assert value == (None if expected is None else pytest.approx(expected, rel=4e-16))
    cosine = found["cosine_similarity"]
    assert cosine is None or -1 <= cosine <= 1


@pytest.mark.parametrize("case", VECTORS["parity_errors_refused"], ids=str)
def test_what_cannot_be_compared(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        parity_errors(case["actual"], case["reference"])


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**400])
def test_numbers_that_are_not_finite_are_not_compared(number: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        parity_errors([1.0, number], [1.0, 1.0])


def test_arrays_and_tensors_are_compared_as_their_numbers() -> None:
    assert parity_errors(array("d", [1, 2, 3]), [1, 2, 3.5]) == parity_errors([1, 2, 3], [1, 2, 3.5])


@given(st.lists(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2), min_size=1, max_size=20))
@settings(max_examples=50)
def test_errors_of_anything_finite_satisfy_the_gate(pairs: list[tuple[float, float]]) -> None:
    """R-105, R-106: what the helper measures is never refused as inconsistent."""
    try:
        errors = parity_errors([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
    except ValueError:
        return
    relative, largest = errors["relative_l2_error"], errors["max_abs_error"]
    assert (relative is None) == (errors["reference_max_abs"] == 0 < largest)
    if errors["reference_max_abs"] > 1e-150 and largest > 1e-150:
        assert relative is None or relative > 0
    report = {**LOSS["report"]["paths"][0], "errors": {"baseline_loss": errors}}
    (path,) = parse_report({"required": True, "paths": [report]}).paths
    assert path.errors["baseline_loss"].gaps == ()


@pytest.mark.parametrize("case", VECTORS["lr_scaling_error"], ids=str)
def test_lr_scaling_error(case: dict[str, Any]) -> None:
    pairs = [(rate, norm) for rate, norm in case["probes"]]
    assert lr_scaling_error(pairs) == pytest.approx(case["error"], abs=1e-15)
    named = [{"learning_rate": rate, "update_norm": norm} for rate, norm in pairs]
    assert lr_scaling_error(named) == lr_scaling_error(pairs)


@pytest.mark.parametrize("case", VECTORS["lr_scaling_error_refused"], ids=str)
def test_probes_without_a_scaling(case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$|found"):
        lr_scaling_error([(rate, norm) for rate, norm in case["probes"]])


@pytest.mark.parametrize("name", CASES)
def test_gate(name: str) -> None:
    case = CASES[name]
    bundle = document(case)
    reports = [bundle["report"]] if "report" in bundle else []
    gate = gate_of(judged(bundle["spec"], *reports))
    assert gate.status == case["status"]
    assert bool(gate.problems) == (gate.status in ("failed", "unverified"))
    found = [(problem.rule, problem.path) for problem in gate.problems]
    wanted = [(problem["rule"], problem["path"]) for problem in case["problems"]]
    assert set(wanted) <= set(found)
    if gate.status == "failed":
        assert found[0] == wanted[0], "what failed stands first"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_unverified(number: float) -> None:
    """R-105, for reports that never were JSON."""
    path = "/report/paths/0/errors/baseline_loss/max_abs_error"
    bundle = patched(LOSS, [{"op": "replace", "path": path, "value": number}])
    plan = parse_plan(bundle["spec"]["correctness_preflight"])
    found = check_correctness(plan, parse_report(bundle["report"]))
    assert found.status is GateStatus.UNVERIFIED
    assert [problem.rule for problem in found.problems] == ["R-105"]


def test_the_numbers_that_decide_are_declared() -> None:
    gate = gate_of(judged(LOSS["spec"], LOSS["report"]))
    assert gate.computed["advantage.baseline_gradient.max_abs_error"] == 2**-22
    assert gate.computed["advantage.baseline_gradient.limit"] == 1e-6 + 1e-5 * 0.5
    assert gate.computed["advantage.baseline_gradient.cosine_similarity"] == 1
    assert set(gate.provenance.values()) == {"declared"}
    assert "as reported" in gate.reason, "R-10F"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("everything within its tolerance", "1 path agrees with the pinned references"),
        ("1.31e-6 at a limit of 1.3e-6", "A reported error is beyond"),
        ("loss errors alone", "does not show that the new path computes what it should"),
        ("an unresolved baseline", "no accepted plan"),
    ],
)
def test_the_reason_says_what_became_of_it(name: str, says: str) -> None:
    bundle = document(CASES[name])
    assert says in gate_of(judged(bundle["spec"], bundle["report"])).reason


def test_the_scaling_is_told_for_each_factor() -> None:
    plain, factors = (document(CASES[name]) for name in ("an optimizer that scales", "planned factors that scale"))
    assert gate_of(judged(plain["spec"], plain["report"])).computed["sign_descent.lr_scaling_error"] == 0.0625
    computed = gate_of(judged(factors["spec"], factors["report"])).computed
    assert [computed[f"sign_descent.lr_scaling_error.{factor}"] for factor in "AB"] == [0.0625, 0.0625]


@pytest.mark.parametrize(
    ("name", "expected", "found"),
    [
        ("an optimizer that does not scale", "norm / learning rate within 0.0625", "a relative change of 0.25"),
        ("one factor that does not scale", 'norm / learning rate of "B" within', "a relative change of 0.25"),
        ("a factor that was not planned", 'planned factors alone ("A")', 'a probe of "B"'),
        ("no factor where some are planned", 'planned factors alone ("A")', "a probe of no factor"),
        ("a planned learning rate that was left out", "in their order: 0.125, 0.25, 0.5, 1.0", "0.125, 0.25, 0.5"),
        ("no probe where learning rates are planned", "in their order: 0.125, 0.25", "none"),
        ("a path measured twice", 'the path "advantage" once', "it 2 times"),
        ("nothing about the only path", 'the path "advantage" once', "nothing about it"),
    ],
)
def test_a_problem_says_what_was_expected_and_what_was_found(name: str, expected: str, found: str) -> None:
    bundle = document(CASES[name])
    problems = gate_of(judged(bundle["spec"], bundle["report"])).problems
    assert any(expected in problem.expected and problem.found == found for problem in problems)


def failed_first(**fields: Any) -> dict[str, Any]:
    """A report beyond its tolerance, of an implementation with these fields."""
    report: dict[str, Any] = patched(LOSS, CASES["1.31e-6 at a limit of 1.3e-6"]["patch"])["report"]
    report["paths"][0] |= fields
    return report


def test_the_latest_report_counts_and_earlier_failures_stay_visible() -> None:
    failed = failed_first(implementation_revision="script 3c29")
    gate = gate_of(judged(LOSS["spec"], failed, LOSS["report"]))
    assert gate.status == "passed"
    assert "Earlier reports failed: update 1." in gate.reason
    assert gate_of(judged(LOSS["spec"], LOSS["report"], failed)).status == "failed"


def test_what_failed_does_not_pass_without_a_change_to_the_code() -> None:
    """R-10A"""
    reports = (failed_first(), failed_first(implementation_revision="script 3c29"), LOSS["report"])
    gate = gate_of(judged(LOSS["spec"], *reports))
    assert gate.status == "unverified"
    (problem,) = gate.problems
    assert (problem.rule, problem.path) == ("R-10A", "correctness_preflight.paths[0].implementation_revision")
    assert "failed in update 1" in problem.expected
    unmeasured = patched(LOSS, CASES["loss errors alone"]["patch"])["report"]
    assert gate_of(judged(LOSS["spec"], unmeasured, LOSS["report"])).status == "passed", "it was only incomplete"


def test_an_earlier_report_that_asks_for_the_check_is_not_taken_back() -> None:
    """R-100"""
    spec = patched(CASES["no plan, and neither feature"], [])["patch"]
    bundle = patched(LOSS, spec)
    assert gate_of(judged(bundle["spec"], bundle["report"])).status == "not_applicable"
    assert gate_of(judged(bundle["spec"], LOSS["report"], bundle["report"])).status == "unverified"


def flags_of(judgment: Judgment) -> set[tuple[str, int | None]]:
    return {(flag.rule, flag.update) for flag in judgment.flags}


def test_a_loss_of_exactly_0_is_noted() -> None:
    """R-106"""
    bundle = document(CASES["a loss whose reference is 0"])
    assert ("R-106", 1) in flags_of(judged(bundle["spec"], bundle["report"]))
    assert ("R-106", 1) not in flags_of(judged(LOSS["spec"], LOSS["report"]))


@pytest.mark.parametrize(("relative", "status"), [(2e-6, "passed"), (1.7e-6, "passed"), (1e-6, "unverified")])
def test_the_errors_of_one_number_follow_from_each_other(relative: float, status: str) -> None:
    """R-106: 4.8e-7 beside 0.25 is 1.92e-6, however a person rounds it."""
    path = "/report/paths/0/errors/baseline_loss"
    values = {"max_abs_error": 4.8e-7, "reference_max_abs": 0.25, "relative_l2_error": relative}
    bundle = patched(LOSS, [{"op": "replace", "path": path, "value": values | {"cosine_similarity": 1}}])
    gate = gate_of(judged(bundle["spec"], bundle["report"]))
    assert (gate.status, [problem.rule for problem in gate.problems]) == (status, ["R-106"] * (status != "passed"))


@pytest.mark.parametrize(("largest", "noted"), [(1e-6, False), (1.125e-6, True)])
def test_a_loss_that_holds_by_its_reported_size_is_noted(largest: float, noted: bool) -> None:
    """R-104: beyond atol, 1e-6, and within 1e-6 + 1e-6 * 0.25."""
    path = "/report/paths/0/errors/baseline_loss"
    values = {"max_abs_error": largest, "reference_max_abs": 0.25, "relative_l2_error": 4 * largest}
    bundle = patched(LOSS, [{"op": "replace", "path": path, "value": values | {"cosine_similarity": 1}}])
    judgment = judged(bundle["spec"], bundle["report"])
    assert gate_of(judgment).status == "passed"
    assert (("R-104", 1) in flags_of(judgment)) == noted


REPORTED, BASE_SCORED, A_TRAINED = (
    {"status": "running", "correctness_preflight": LOSS["report"]},
    {"status": "running", "completed_arms": ["base"]},
    {"status": "running", "completed_arms": ["a"]},
)


@pytest.mark.parametrize(
    ("bodies", "status"),
    [
        ([REPORTED, A_TRAINED], "passed"),
        ([BASE_SCORED, REPORTED, A_TRAINED], "passed"),
        ([REPORTED, A_TRAINED, REPORTED], "passed"),
        ([A_TRAINED, REPORTED], "unverified"),
        ([REPORTED | A_TRAINED], "unverified"),
        ([REPORTED | {"status": "succeeded"}], "unverified"),
    ],
)
def test_a_check_guards_what_is_trained_after_it(bodies: list[Any], status: str) -> None:
    """R-100"""
    spec = {**LOSS["spec"], "arms": [{"name": "a"}, {"name": "b"}]}
    judgment = judge(spec_of(spec), updates_of(bodies), [])
    gate = gate_of(judgment)
    assert (gate.status, [problem.rule for problem in gate.problems]) == (status, ["R-100"] * (status == "unverified"))


@pytest.mark.parametrize("stock", [{"role": "baseline"}, {"frozen": True}])
def test_a_stock_arm_may_be_trained_before_the_check(stock: dict[str, Any]) -> None:
    """R-100: it is noted."""
    spec = {**LOSS["spec"], "arms": [{"name": "a", **stock}, {"name": "b"}]}
    judgment = judge(spec_of(spec), updates_of([A_TRAINED, REPORTED]), [])
    assert gate_of(judgment).status == "passed"
    assert ("R-100", 2) in flags_of(judgment)


def test_probe_scripts_and_fixed_inputs_are_kept() -> None:
    """R-10D"""
    fixed_input, script = file_of("input.json", "probe", "[1, 2]"), file_of("probe.py", "script", "print()")
    digest = {"op": "replace", "path": "/report/paths/0/fixed_input/sha256", "value": fixed_input.sha256}
    bundle = patched(LOSS, [digest])
    updates = updates_of([{"status": "running", "correctness_preflight": bundle["report"]}])
    for files, missing in (([], 2), ([script], 1), ([fixed_input], 0), ([fixed_input, script], 0)):
        judgment = judge(spec_of(bundle["spec"]), updates, files)
        assert len([flag for flag in judgment.flags if flag.rule == "R-10D"]) == missing


def test_problems_of_a_plan_are_there_before_anything_is_reported() -> None:
    assert plan_problems(spec_of(LOSS["spec"])) == ()
    unpinned = patched(
        LOSS,
        [
            {"op": "replace", "path": f"/spec/correctness_preflight/paths/0/{name}", "value": "UNRESOLVED: pin it"}
            for name in ("baseline_revision", "reference_revision")
        ],
    )
    problems = plan_problems(spec_of(unpinned["spec"]))
    assert [(problem.rule, problem.path.rpartition(".")[2]) for problem in problems] == [
        ("R-109", "reference_revision"),
        ("R-109", "baseline_revision"),
    ]


def test_a_report_without_bounds_is_told_in_twenty_sentences() -> None:
    path = {**LOSS["report"]["paths"][0], "errors": {f"e{index}": {} for index in range(1000)}}
    report = {"required": True, "paths": [path] * 1000}
    gate = gate_of(judged(LOSS["spec"], report))
    assert (gate.status, len(gate.problems)) == ("unverified", MAX_PROBLEMS)
    plan = patched(LOSS["spec"], [])
    plan["correctness_preflight"]["paths"] = [{}] * 1000
    assert len(gate_of(judged(plan, LOSS["report"])).problems) == MAX_PROBLEMS


def test_what_is_not_looked_at_is_not_passed() -> None:
    plan, report = LOSS["spec"]["correctness_preflight"], LOSS["report"]
    many = [{**report["paths"][0], "id": str(number)} for number in range(MAX_PATHS)]
    bundle = patched(LOSS, [])
    bundle["spec"]["correctness_preflight"]["paths"] = [{**plan["paths"][0], "id": path["id"]} for path in many]
    assert gate_of(judged(bundle["spec"], {**report, "paths": many})).status == "passed"
    (problem,) = gate_of(judged(bundle["spec"], {**report, "paths": [*many, report["paths"][0]]})).problems
    assert (problem.rule, problem.path, problem.found) == ("R-102", "correctness_preflight.paths", "101")


def mutated(document: Any, steps: list[int], value: Any) -> Any:
    """The document with the value at a place that the steps lead to."""
    if not steps or not isinstance(document, (dict, list)) or not document:
        return value
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    key = keys[steps[0] % len(keys)]
    copy = document.copy()
    copy[key] = mutated(document[key], steps[1:], value)
    return copy


@given(st.sampled_from(sorted(VECTORS["bases"])), st.lists(st.integers(0, 20), max_size=8), json_values)
@settings(max_examples=50, deadline=None)
def test_any_json_in_any_place_is_judged(base: str, steps: list[int], value: Any) -> None:
    bundle = mutated(VECTORS["bases"][base], steps, value)
    spec, report = (bundle.get(name) if isinstance(bundle, dict) else None for name in ("spec", "report"))
    section = spec.get("correctness_preflight") if isinstance(spec, dict) else None
    found = check_correctness(parse_plan(section), parse_report(report))
    assert (found.status is GateStatus.PASSED) == (not found.problems)
    assert all(str(problem) for problem in found.problems)
