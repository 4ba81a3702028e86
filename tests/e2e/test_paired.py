"""The comparison of two trained arms, made small: every gate is required, and every one of them passes."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.rx import Rx

SPEC = Path(__file__).parents[2] / "experiments" / "arithmetic" / "paired.spec.json"
STEPS, GROUPS, ANSWERS = 2, 4, 4
SELECTION, CONFIRMATION = 5, 10


def small() -> dict[str, Any]:
    """The spec with little of everything that takes time, and nothing else changed."""
    spec: dict[str, Any] = json.loads(SPEC.read_text())
    spec |= {"title": "Two arms, small", "lora_rank": 1, "steps": STEPS, "batch_size": GROUPS * ANSWERS}
    spec["eval"]["n_examples"] = CONFIRMATION
    for arm in spec["arms"]:
        arm |= {"steps": STEPS, "groups_per_batch": GROUPS, "group_size": ANSWERS}
    checks = {check["metric"]: check for check in spec["activation_gate"]["checks"]}
    checks["rollouts_per_problem"] |= {"min": ANSWERS, "max": ANSWERS}
    checks["rollouts_per_step"] |= {"min": GROUPS * ANSWERS, "max": GROUPS * ANSWERS}
    items = spec["decision_rule"]["selection"]
    for part, size in (("selection_items", SELECTION), ("confirmation_items", CONFIRMATION)):
        items[part]["ids"] = items[part]["ids"][:size]
    return spec


@pytest.fixture(scope="module")
def record(rx: Rx, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("paired") / "arithmetic"
    shutil.copytree(SPEC.parent, folder)
    (folder / SPEC.name).write_text(json.dumps(small()))
    with rx.running("run", str(folder / SPEC.name)) as running:
        running.wait()
        assert "Traceback" not in running.said
    yield rx.record(running.run_id)
    assert rx.left_running() == []


def test_every_gate_that_two_trained_arms_take_is_required_and_passes(record: dict[str, Any]) -> None:
    gates = {gate["gate"]: gate for gate in record["recorded"]["gates"]}
    assert {name: gate["problems"] for name, gate in gates.items() if gate["status"] != "passed"} == {
        "generation_audit": []
    }
    assert gates["generation_audit"]["status"] == "not_applicable"
    assert record["recorded"]["withholding_gates"] == []
    assert record["recorded"]["status"] == "succeeded"


def test_the_projection_fits_and_the_numbers_are_there(record: dict[str, Any]) -> None:
    assert record["recorded"]["feasibility"]["status"] == "fits"
    assert set(record["state"]["completed_arms"]) == {"base", "group", "running"}
    steps = record["state"]["metrics"]["step"]["history"]
    assert [step["value"] for step in steps] == list(range(1, 6 * STEPS + 1)), "three rates for each of two arms"


def test_no_rule_has_anything_to_remark_about_order_or_evidence(record: dict[str, Any]) -> None:
    remarks = {flag["rule"] for flag in record["recorded"]["flags"]}
    assert not remarks & {"R-09F", "R-100", "R-10D", "R-138", "R-150", "R-181"}, record["recorded"]["flags"]
    states = {expectation["kind"]: expectation["state"] for expectation in record["recorded"]["evidence"]}
    states.pop("code_patch")  # there is one only where the files differ from their revision
    assert set(states.values()) <= {"retained", "not_applicable"}, states
