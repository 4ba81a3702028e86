"""What the script finds out after its activation gate has stopped it, without a service."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tinker.types import Datum

from experiments.score_centering.centering import losses, preflights
from experiments.score_centering.centering.plan import Plan
from experiments.score_centering.centering.stopped import diagnose
from research_exchange.client import GateReading
from research_exchange.harness import Cause
from tests.experiments.score_centering.test_losses import answer, sequence

SPEC = Path(preflights.REFERENCE).with_name("laptop.spec.json")
PLAN = Plan.of_spec(json.loads(SPEC.read_text()))
DATA = [sequence([1, 2, 3], worth) for worth in (0.5, -0.5)]
LOOSE_HEAD = [[-1.5, -1.6, -1.7], [-1.0, -2.0, losses.EMPTY]]
LOOSE = [sequence([1, 2], 0.5, answer(head=LOOSE_HEAD, ids=[[6, 5, 3], [6, 5, 0]]))]
"""Heads that leave much mass outside, where a small mismatch makes tis and mis cut nothing off."""
PILOT = preflights.Pilot(values={}, data=DATA, checkpoint="tinker://a/weights/b", last="tinker://a/sampler_weights/c")


def stopped(problem: str) -> GateReading:
    return GateReading("activation_gate", "failed", "A check does not hold.", (problem,))


def missed(metric: str, found: str) -> GateReading:
    return stopped(f"R-123 activation_calibration.values.{metric}: Expected something else, found {found}.")


CAUSES = {
    "none": (Cause.INACTIVE_REGIME, "differ too little", "weights older than 5 steps"),
    "identity": (Cause.WRONG_REFERENCE, "every coefficient of its correction is zero", "take --weight none"),
    "tis": (Cause.INACTIVE_REGIME, "wherever nothing is cut off", "Take --weight none"),
    "mis": (Cause.INACTIVE_REGIME, "wherever nothing is cut off", "Take --weight none"),
}


@pytest.mark.parametrize("weight", list(losses.Weight))
@pytest.mark.parametrize("data", [DATA, LOOSE], ids=["full", "loose"])
def test_a_treatment_that_works_and_has_nothing_to_correct_is_told_by_its_weight(
    weight: str, data: list[Datum]
) -> None:
    gate = missed("stale_sum_abs_c", "1e-07")
    found = diagnose(gate, replace(PLAN, weight=weight), replace(PILOT, data=data))
    assert [(case.name, case.activated, case.holds) for case in found.cases] == [
        ("learner is sampler", False, True),
        ("learner is off", weight != "identity", True),
    ]
    cause, why, advice = CAUSES[weight]
    assert (found.cause, why in found.explanation, advice in found.next_diagnostic) == (cause, True, True)
    assert (weight == "identity") == ("older weights cannot help" in found.next_diagnostic)
    assert found.schedule is not None
    assert found.schedule.intervening_updates == PLAN.stale_steps
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize("weight", ["none", "tis", "mis"])
def test_without_a_mismatch_older_weights_are_what_it_takes(weight: str) -> None:
    gate = stopped(f"{missed('stale_logprob_gap', '0').problems} {missed('stale_sum_abs_c', '0').problems}")
    found = diagnose(gate, replace(PLAN, weight=weight), PILOT)
    assert found.cause is Cause.INACTIVE_REGIME
    assert found.next_diagnostic == "A new version of the spec, with weights older than 5 steps to sample from."


def test_another_model_than_the_specs_is_the_cause_whatever_else_failed() -> None:
    gate = stopped(f"{missed('executed_base_model', 'a/b').problems} {missed('stale_logprob_gap', '0').problems}")
    found = diagnose(gate, PLAN, PILOT)
    assert found.cause is Cause.WRONG_REFERENCE
    assert found.next_diagnostic == "Run the spec's own model, or save a spec of the other one."


def test_another_failed_check_leaves_the_cause_open() -> None:
    found = diagnose(missed("batch_mean_reward", "0"), PLAN, PILOT)
    assert found.cause is Cause.UNKNOWN
    assert "--measure-base" in found.next_diagnostic


def test_a_correction_that_acts_where_it_must_not_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "coefficients", lambda weight, q, p: q + p)
    assert diagnose(missed("stale_sum_abs_c", "1e-07"), PLAN, PILOT).cause is Cause.DEFECT
