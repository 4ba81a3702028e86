"""What the script finds out after its activation gate has stopped it, without a service."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.score_centering.centering import losses, preflights
from experiments.score_centering.centering.plan import Plan
from research_exchange.client import GateReading
from research_exchange.harness import Cause
from tests.experiments.score_centering.test_losses import sequence

SPEC = Path(preflights.REFERENCE).with_name("laptop.spec.json")
PLAN = Plan.of_spec(json.loads(SPEC.read_text()))
DATA = [sequence([1, 2, 3], worth) for worth in (0.5, -0.5)]
PILOT = preflights.Pilot(values={}, data=DATA, checkpoint="tinker://a/weights/b", last="tinker://a/sampler_weights/c")


def stopped(problem: str) -> GateReading:
    return GateReading("activation_gate", "failed", "A check does not hold.", (problem,))


@pytest.mark.parametrize("weight", list(losses.Weight))
def test_a_treatment_that_works_and_finds_no_mismatch_has_nothing_to_do(weight: str) -> None:
    gate = stopped("R-123 activation_calibration.values.stale_sum_abs_c: Expected 0.01 or more, found 1e-07.")
    found = preflights.diagnose(gate, replace(PLAN, weight=weight), PILOT)
    assert [(case.name, case.activated, case.holds) for case in found.cases] == [
        ("learner is sampler", False, True),
        ("learner is off", weight != "identity", True),
    ]
    assert found.cause is Cause.INACTIVE_REGIME
    assert "weights older than 5 steps" in found.next_diagnostic
    assert found.schedule is not None
    assert found.schedule.intervening_updates == PLAN.stale_steps
    json.dumps(found.to_json(), allow_nan=False)


def test_another_failed_check_leaves_the_cause_open() -> None:
    gate = stopped("R-123 activation_calibration.values.batch_mean_reward: Expected 0.03 or more, found 0.")
    found = preflights.diagnose(gate, PLAN, PILOT)
    assert found.cause is Cause.UNKNOWN
    assert "--measure-base" in found.next_diagnostic


def test_a_correction_that_acts_where_it_must_not_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "coefficients", lambda weight, q, p: q + p)
    gate = stopped("R-123 activation_calibration.values.stale_sum_abs_c: Expected 0.01 or more, found 1e-07.")
    assert preflights.diagnose(gate, PLAN, PILOT).cause is Cause.DEFECT
