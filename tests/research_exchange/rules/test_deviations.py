"""What a run did otherwise without a word, and what it says about its hypothesis and its arms (R-008, R-078, R-080)."""

import json
from typing import Any

import pytest

from research_exchange.documents import EvidenceFile
from tests.research_exchange.rules.small_run import FINAL, add, flags, judged, replace
from tests.research_exchange.rules.support import file_of

# --- Settings that changed without a word ---


def config(**settings: Any) -> EvidenceFile:
    return file_of("config.json", "effective_config", json.dumps(settings))


@pytest.mark.parametrize(
    ("settings", "undeclared"),
    [
        ({"base_model": "tiny"}, []),
        ({"model": "Tiny "}, []),
        ({"base_model": "tiny-instruct"}, ["base_model"]),
        ({"steps": 40}, []),
        ({"steps": 30}, ["steps"]),
        ({"steps": 40.0}, []),
        ({"steps": "30"}, ["steps"]),
        ({"steps": True}, []),
        ({"batch_size": 32}, ["batch_size"]),
        ({"learning_rate": 1e-4}, ["optimizer.lr"]),
        ({"optimizer": {"lr": 2e-4}}, []),
        ({"arm": "trained", "lr": 3e-4}, []),
        ({"arm": "trained", "lr": 2e-4}, ["optimizer.lr"]),
        ({"arm": "untrained", "lr": 2e-4}, []),
        ({"lr": 3e-4}, []),
        ({"dataset": {"name": "other", "n_examples": 10}}, ["dataset.name", "dataset.n_examples"]),
        ({"eval": {"n_examples": 4}}, ["eval.n_examples"]),
        ({"lora_rank": 64}, []),
        ({"anything": 7}, []),
    ],
    ids=str,
)
def test_r080_settings(settings: dict[str, Any], undeclared: list[str]) -> None:
    """Only what the spec fixes and the configuration repeats is compared."""
    plan = [
        add("/spec/steps", 40),
        add("/spec/batch_size", 64),
        add("/spec/optimizer", {"name": "adam", "lr": 2e-4}),
        add("/spec/arms/0/lr", 3e-4),
        add("/spec/dataset", {"name": "gsm8k", "n_examples": 100}),
        add("/spec/eval", {"n_examples": 8}),
    ]
    judgment = judged(*plan, more=(config(**settings),))
    assert [each.setting for each in judgment.undeclared] == undeclared
    assert len(flags(judgment, "R-080")) == len(undeclared)
    reported = judged(*plan, add("/updates/1/feasibility", {"effective_config": settings}))
    assert [each.setting for each in reported.undeclared] == undeclared


@pytest.mark.parametrize(
    ("base", "undeclared"),
    [
        ("org/tiny", []),
        ("ORG/tiny@0f3c2a", []),
        ("org/tiny, revision 0f3c2a", []),
        ("0f3c2a", []),
        ("tinker://abc/weights/base", []),
        (None, []),
        ("org/large@0f3c2a", ["org/large"]),
    ],
)
def test_r080_a_base_checkpoint_of_another_model(base: str | None, undeclared: list[str]) -> None:
    start = {"version": 1, "arms": [{"arm": "trained", "initialization": {"base_checkpoint": base}}]}
    plan = [add("/spec/base_model", "org/tiny"), add("/updates/0/initialization_provenance", start)]
    assert [each.effective for each in judged(*plan).undeclared] == undeclared
    served = {"field": "model", "original": "org/tiny", "effective": "org/large", "reason": "It is served."}
    assert judged(*plan, replace("/updates/0/deviations", [served])).undeclared == ()


def test_r080_a_value_that_all_arms_share_is_named_once() -> None:
    plan = [add("/spec/steps", 40), add("/spec/arms/0/steps", 40), add("/spec/arms/1/steps", 40)]
    (each,) = judged(*plan, more=(config(steps=30),)).undeclared
    assert each.planned == (40,)


def test_r080_a_stated_change_is_declared_with_the_value_that_was_used() -> None:
    stated = {"field": "steps", "original": "40", "effective": "30 steps", "reason": "time"}
    operations = [add("/spec/steps", 40), add("/updates/0/deviations/-", stated)]
    assert judged(*operations, more=(config(steps=30),)).undeclared == ()
    (other,) = judged(*operations, more=(config(steps=20),)).undeclared
    assert (other.setting, other.planned, other.effective, other.source) == ("steps", (40,), 20, "config.json")
    assert flags(judged(*operations, more=(config(steps=20),)), "R-080") == [
        "config.json has steps 20; the spec says 40, and no deviation is stated."
    ]


@pytest.mark.parametrize(
    ("steps", "undeclared"), [([40], []), ([20, 40], []), ([20], ["steps"]), ([40, 80], ["steps"])]
)
def test_r080_steps_of_the_last_checkpoint(steps: list[int], undeclared: list[str]) -> None:
    checkpoints = [{"arm": "trained", "step": step, "uri": f"tinker://abc/weights/{step}"} for step in steps]
    evidence = add("/updates/1/evidence", {"version": 1, "files": [], "checkpoints": checkpoints})
    judgment = judged(add("/spec/steps", 40), evidence)
    assert [each.setting for each in judgment.undeclared] == undeclared
    odd = [{"arm": arm, "step": step} for arm, step in (("other", 99), ("trained", "99"), (["trained"], 99))]
    more = add("/updates/0/evidence", {"version": 1, "files": [], "checkpoints": odd})
    assert judged(add("/spec/steps", 40), evidence, more).undeclared == judgment.undeclared
    running = judged(add("/spec/steps", 40), evidence, {"op": "remove", "path": FINAL})
    assert running.undeclared == (), "there may be more to come"


def test_r080_a_stated_model_is_declared() -> None:
    """R-081"""
    stated = {"field": "model", "original": "tiny", "effective": "org/Tiny-Instruct", "reason": "not served"}
    declared = judged(add("/updates/0/deviations/-", stated), more=(config(base_model="org/tiny-instruct"),))
    assert declared.undeclared == ()
    other = judged(add("/updates/0/deviations/-", stated), more=(config(base_model="org/other"),))
    assert [each.effective for each in other.undeclared] == ["org/other"]


def test_only_a_configuration_is_read_as_one() -> None:
    file = file_of("config.json", "other", json.dumps({"steps": 30}))
    assert judged(add("/spec/steps", 40), more=(file,)).undeclared == ()


@pytest.mark.parametrize("content", ["steps: 30", "[1]", "", '{"steps": 30, "steps": 40}'])
def test_a_configuration_in_another_form_is_left_to_people(content: str) -> None:
    file = file_of("config.yaml", "effective_config", content)
    assert judged(add("/spec/steps", 40), more=(file,)).undeclared == ()


# --- What the report says about itself ---


@pytest.mark.parametrize("value", [0, 1, "true", "yes", [], {}])
def test_r078_neither_true_nor_false_withholds(value: Any) -> None:
    judgment = judged(add(f"{FINAL}/original_hypothesis_tested", value))
    assert (judgment.recorded_verdict, judgment.withheld, judgment.basis) == ("inconclusive", True, "report")
    assert judgment.changed_experiment_verdict is None
    assert judgment.deviations.hypothesis_tested is None


def test_r078_a_slip_that_is_corrected_does_not_withhold() -> None:
    slip = [add("/updates/0/original_hypothesis_tested", "yes"), add(f"{FINAL}/original_hypothesis_tested", True)]
    assert judged(*slip).recorded_verdict == "supported"


@pytest.mark.parametrize("value", ["false", " False"])
def test_r078_false_as_text_is_false(value: str) -> None:
    denied = [add("/updates/0/original_hypothesis_tested", value), add(f"{FINAL}/original_hypothesis_tested", True)]
    judgment = judged(*denied)
    assert (judgment.basis, judgment.changed_experiment_verdict) == ("changed_experiment", "supported")


@pytest.mark.parametrize("field", ["primary_endpoint", "Training objective", "objective_function"])
def test_r078_another_name_for_the_objective(field: str) -> None:
    stated = {"field": field, "original": "a", "effective": "b", "reason": "r"}
    assert judged(add("/updates/0/deviations/-", stated)).basis == "changed_experiment"


@pytest.mark.parametrize("field", [["objective"], {"name": "objective"}])
def test_r078_an_objective_that_is_no_text(field: Any) -> None:
    stated = {"field": field, "original": "a", "effective": "b", "reason": "r"}
    assert judged(add("/updates/0/deviations/-", stated)).basis == "changed_experiment"


def test_r078_both_the_hypothesis_and_another_one() -> None:
    both = [add(f"{FINAL}/original_hypothesis_tested", True), add(f"{FINAL}/tested_instead", "REINFORCE")]
    assert len(flags(judged(*both), "R-078")) == 1
    nothing = [add(f"{FINAL}/original_hypothesis_tested", True), add(f"{FINAL}/tested_instead", "")]
    assert flags(judged(*nothing), "R-078") == []


@pytest.mark.parametrize("arm", [{"name": "trained"}, {"nam": "third"}, "third", {"name": ""}])
def test_r008_an_arm_twice_or_without_a_name(arm: Any) -> None:
    judgment = judged(add("/spec/arms/-", arm))
    assert (judgment.withheld, judgment.basis) == (True, "incomplete_execution")


def test_r008_arms_that_are_no_list() -> None:
    judgment = judged(
        replace("/spec/arms", {"trained": {}, "untrained": {}}), {"op": "remove", "path": "/spec/decision_rule"}
    )
    assert (judgment.withheld, judgment.basis) == (True, "incomplete_execution")


def test_r170_a_projection_that_is_asked_for_and_missing_is_remarked() -> None:
    asked = add("/spec/feasibility_required", True)
    (text,) = flags(judged(asked), "R-170")
    assert text.startswith("The spec asks for a measured projection that fits; it is unknown. R-170 feasibility")
    for completed in ([], ["base"]):
        early = judged(asked, {"op": "remove", "path": FINAL}, replace("/updates/1/completed_arms", completed))
        assert flags(early, "R-170") == []
    assert flags(judged(), "R-170") == []


def test_r170_notes_on_a_projection_are_remarked() -> None:
    timed = {"seconds": 1, "units": 1, "planned_units": 1, "samples": 0, "gpu_count": None, "allocation_source": None}
    report = {"measurements": {"setup": timed, "training": timed, "evaluation": timed}}
    assert flags(judged(add("/updates/0/feasibility", report)), "R-170") != []


def test_capacity_and_feasibility_stand_in_the_judgment() -> None:
    value: Any = judged().to_json()
    assert value["capacity"]["requeue"] == "not_asked"
    assert value["feasibility"]["problems"] == ["Measured feasibility not recorded"]
