"""The bundled experiment: its spec and its script say the same."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.arithmetic import train
from research_exchange.experiment_features import FEATURES

SPEC = json.loads((Path(train.__file__).parent / "spec.json").read_text())


def plan_with(monkeypatch: pytest.MonkeyPatch, *flags: str) -> train.Plan:
    monkeypatch.setattr(sys, "argv", ["train.py", *flags])
    return train.Plan.of_spec(SPEC).with_flags()


def test_without_flags_the_plan_is_the_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    written = train.Plan.of_spec(SPEC)
    assert plan_with(monkeypatch) == written
    assert written.changes(written) == {"deviations": [], "original_hypothesis_tested": True, "tested_instead": ""}


def test_the_numbers_of_the_spec_agree_with_each_other_and_the_script() -> None:
    plan = train.Plan.of_spec(SPEC)
    assert SPEC["batch_size"] == plan.groups_per_batch * plan.group_size
    assert SPEC["eval"]["n_examples"] == train.HELD_OUT
    assert SPEC["dataset"]["n_examples"] == len(train.problems()) - train.HELD_OUT
    assert SPEC["decision_rule"]["seeds"] == [plan.seed]
    assert f"{plan.groups_per_batch} problems x {plan.group_size} answers" in SPEC["method"]
    checks = {check["metric"]: check for check in SPEC["activation_gate"]["checks"]}
    assert checks["rollouts_per_problem"]["min"] == checks["rollouts_per_problem"]["max"] == plan.group_size
    assert checks["rollouts_per_step"]["min"] == checks["rollouts_per_step"]["max"] == SPEC["batch_size"]


def test_r085_every_feature_is_declared() -> None:
    assert set(SPEC["experiment_features"]) == set(FEATURES)
    assert all(isinstance(value, bool) for value in SPEC["experiment_features"].values())


def test_training_never_runs_into_the_held_out_problems() -> None:
    problems = train.problems()
    assert len({problem.id for problem in problems}) == 1000
    assert problems == train.problems(), "the split is the same every time"
    assert all(eval(problem.question) == int(problem.reference) for problem in problems)
    used = train.Plan.of_spec(SPEC)
    assert (used.steps + train.PILOT_STEPS) * used.groups_per_batch <= len(problems) - train.HELD_OUT, (
        "each problem once"
    )


def test_r075_what_a_flag_changes_is_a_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    written = train.Plan.of_spec(SPEC)
    changed = plan_with(monkeypatch, "--steps", "3", "--learning-rate", "0", "--seed", "1").changes(written)
    assert {(each["field"], each["effective"]) for each in changed["deviations"]} == {
        ("steps", "3"),
        ("learning_rate", "0.0"),
        ("seed", "1"),
    }
    assert changed["original_hypothesis_tested"] is True


def test_r078_another_reward_tests_another_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = plan_with(monkeypatch, "--shuffle-rewards").changes(train.Plan.of_spec(SPEC))
    assert [each["field"] for each in changed["deviations"]] == ["objective"]
    assert changed["original_hypothesis_tested"] is False
    assert "shuffled" in changed["tested_instead"]
    shuffled = replace(train.Plan.of_spec(SPEC), reward="shuffled")
    assert shuffled.changes(shuffled)["deviations"] == [], "a spec that asks for it is run as written"


@pytest.mark.parametrize(
    ("completion", "answer"), [("45\n12", "45"), ("45", "45"), (" 45\n", " 45"), ("45 + 1", "45 + 1"), ("", "")]
)
def test_an_answer_is_the_rest_of_the_line_as_it_stands(completion: str, answer: str) -> None:
    assert train.first_line(completion) == answer
