"""The feasibility projection (contract §15)."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research_exchange.feasibility import FeasibilityCheck, FeasibilityStatus, check_feasibility
from research_exchange.updates import fold
from tests.research_exchange.rules.support import EXPERIMENTS, patched, spec_of, updates_of, vectors

VECTORS = vectors("feasibility")
BASE = VECTORS["base"]
CASES = {case["name"]: case for case in VECTORS["cases"]}
NOT_RECORDED = (
    '{"status":"unknown","problems":["Measured feasibility not recorded"],'
    '"wall_seconds":null,"gpu_hours":null,"known_gpu_hours":0,"phases":{}}'
)


def checked(document: Any) -> FeasibilityCheck:
    spec = spec_of(document["spec"])
    return check_feasibility(spec, fold(spec, updates_of(document["updates"])))


def change(*operations: tuple[str, Any]) -> FeasibilityCheck:
    """Of the run that fits, with values put in place of others."""
    return checked(patched(BASE, [{"op": "add", "path": path, "value": value} for path, value in operations]))


@pytest.mark.parametrize("name", CASES)
def test_feasibility(name: str) -> None:
    case = CASES[name]
    check = checked(patched(BASE, case["patch"]))
    found = check.to_json()
    assert found["status"] == case["status"]
    if check.recorded:
        assert {problem.rule for problem in check.problems} == set(case["rules"])
    for key, value in case.get("expect", {}).items():
        assert found[key] == (value if key == "problems" or value is None else pytest.approx(value, rel=1e-12))
    assert list(found) == ["status", "problems", "wall_seconds", "gpu_hours", "known_gpu_hours", "phases"]


def test_case_names_are_different() -> None:
    assert len(CASES) == len(VECTORS["cases"])


@pytest.mark.parametrize("feasibility", [{}, {"feasibility": None}])
def test_nothing_recorded_is_answered_in_these_very_bytes(feasibility: Any) -> None:
    """R-022"""
    found = check_feasibility(spec_of({"title": "t", **feasibility})).to_json()
    assert json.dumps(found, separators=(",", ":")) == NOT_RECORDED


def test_the_answer_for_a_saved_spec_is_the_one_it_was_rendered_with() -> None:
    """R-022"""
    saved = json.loads((EXPERIMENTS / "gs1_vs_grpo" / "spec.original.json").read_bytes())
    assert json.dumps(check_feasibility(spec_of(saved)).to_json()) == json.dumps(saved["feasibility_check"])


def test_a_problem_is_a_sentence() -> None:
    """R-178"""
    check = change(("/updates/0/feasibility/measurements/evaluation/planned_units", 1319))
    assert check.to_json()["problems"] == [
        "R-174 feasibility.measurements.evaluation.planned_units: expected at least 2638 (1319 items for each of "
        "2 arms), found 1319. Project everything that the primary comparison needs; drop what is optional first."
    ]
    (problem,) = change(("/spec/experiment_features", {})).problems
    assert "generated_training_data unresolved" in str(problem)


@pytest.mark.parametrize(
    ("path", "value", "note"),
    [
        ("/measurements/training/gpu_count", None, "GPU-hours are not known in full"),
        ("/recovery/seconds", 0, "Nothing is held back"),
        ("/measurements/training/seconds", 0, '"training" is said to take no time'),
    ],
)
def test_what_changes_nothing_is_noted(path: str, value: Any, note: str) -> None:
    """R-172, R-173, R-178"""
    check = change((f"/updates/0/feasibility{path}", value))
    assert check.status == "fits"
    assert any(note in text for text in check.notes)
    assert change().notes == ()


def test_a_projection_after_the_fact_is_noted() -> None:
    """R-170"""
    first: dict[str, Any] = {"status": "running", "completed_arms": ["grpo"]}
    (note,) = checked({**BASE, "updates": [first, *BASE["updates"]]}).notes
    assert note == "It was published first by update 2, after an arm was completed."
    base = {**first, "completed_arms": ["base"]}
    assert checked({**BASE, "updates": [base, *BASE["updates"]]}).notes == ()


def test_many_phases_are_more_than_a_run_has() -> None:
    """R-171"""
    phase = {**BASE["updates"][0]["feasibility"]["measurements"]["setup"], "seconds": 1}
    extra = {f"phase {number}": phase for number in range(60)}
    measurements = {**extra, **BASE["updates"][0]["feasibility"]["measurements"]}
    check = change(("/updates/0/feasibility/measurements", measurements))
    assert (check.status, check.wall_seconds) == ("unknown", None)
    assert {problem.rule for problem in check.problems} == {"R-171"}
    assert len(check.phases) < 60
    assert check.phases["training"] == 2400


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=5,
)
PLACES = [
    *("/spec/steps", "/spec/eval", "/spec/arms", "/spec/budget", "/spec/budget/gpu_hours", "/updates/0/deviations"),
    *(
        f"/updates/0/feasibility{path}"
        for path in ("", "/effective_config", "/effective_config/steps", "/measurements", "/measurements/training")
    ),
    *(f"/updates/0/feasibility/measurements/training/{name}" for name in ("seconds", "units", "planned_units")),
    *(
        f"/updates/0/feasibility/{name}"
        for name in ("generation", "recovery", "recovery/seconds", "recovery/gpu_count")
    ),
]


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(PLACES), ANYTHING)
def test_anything_is_answered(place: str, value: Any) -> None:
    """Invariant (iv): and in strict JSON."""
    json.dumps(change((place, value)).to_json(), allow_nan=False)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(["training", "evaluation", "probe"]),
    st.fixed_dictionaries(
        {
            name: st.floats(0, allow_infinity=False) | st.integers(0, 2**63 - 1)
            for name in ("seconds", "units", "planned_units", "gpu_count")
        }
    ),
)
def test_no_projection_is_beyond_a_number(phase: str, numbers: dict[str, Any]) -> None:
    measurement = {**numbers, "samples": 0, "allocation_source": "x"}
    check = change((f"/updates/0/feasibility/measurements/{phase}", measurement))
    json.dumps(check.to_json(), allow_nan=False)
    assert check.status != "fits" or (check.wall_seconds is not None and check.wall_seconds <= 9000)


PAGE = (EXPERIMENTS.parent / "docs" / "reference" / "feasibility.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```json (fits|exceeds|unknown)(?: (R-\w+))?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("status", "rule", "text"), EXAMPLES, ids=[f"{status} {rule}" for status, rule, _ in EXAMPLES])
def test_the_examples_of_the_page(status: str, rule: str, text: str) -> None:
    check = checked(json.loads(text))
    assert check.status == status
    assert rule in {problem.rule for problem in check.problems} or not rule


def test_the_page_has_an_example_of_each_status() -> None:
    assert {status for status, _, _ in EXAMPLES} == set(FeasibilityStatus)
