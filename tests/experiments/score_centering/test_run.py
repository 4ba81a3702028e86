"""The whole experiment, small: a call of the script that dies, one that goes on, and one that trains the rest."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.evidence import files
from tests.research_exchange.runner.running import Rx
from tests.servers import MODEL

FOLDER = Path(__file__).parents[3] / "experiments" / "score_centering"
ARMS = ("stock", "centered")
STEPS, EVERY, GROUPS, ANSWERS, ITEMS = 4, 2, 4, 4, 12
DYING = f"""
import os

import rl_score_centering
from centering.training import Training

step = Training._step


def step_or_die(training, number):
    if training.checkpoints is not None and number == {STEPS - 1}:
        os._exit(9)
    return step(training, number)


Training._step = step_or_die
rl_score_centering.main()
"""
"""Ends like a killed process, in the first training's last step, with its last checkpoint {EVERY} steps old."""


def small_spec(folder: Path, problems: Path) -> Path:
    """The laptop's spec with little of everything and without its third arm, in a copy of its folder."""
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "dying.py").write_text(DYING)
    spec: dict[str, Any] = json.loads((FOLDER / "laptop.spec.json").read_text())
    spec |= {"title": "Score centering, small", "base_model": MODEL, "lora_rank": 2, "steps": STEPS}
    spec |= {"batch_size": GROUPS * ANSWERS, "method": "Little of everything."}
    spec["arms"] = [arm for arm in spec["arms"] if arm["name"] in ARMS]
    [group] = spec["restoration_preflight"]["groups"]
    group["arms"] = [arm for arm in group["arms"] if arm["name"] in ARMS]
    plan = spec["correctness_preflight"]
    plan["paths"] = [path for path in plan["paths"] if path["id"] == "score_centering"]
    spec["dataset"]["n_examples"] = STEPS * GROUPS
    spec["optimizer"]["lr"] = 0.01
    spec["eval"]["n_examples"] = ITEMS
    for arm in spec["arms"]:
        arm |= {"steps": STEPS, "evaluate_every": EVERY, "groups_per_batch": GROUPS, "group_size": ANSWERS}
        arm |= {"task": "gsm8k", "max_tokens": 6, "stale_steps": 1, "top_k": 16}
    checks = {check["metric"]: check for check in spec["activation_gate"]["checks"]}
    checks["executed_base_model"]["one_of"] = [MODEL]
    checks["rollouts_per_problem"] |= {"min": ANSWERS, "max": ANSWERS}
    checks["rollouts_per_step"] |= {"min": GROUPS * ANSWERS, "max": GROUPS * ANSWERS}
    checks["head_mass"]["min"] = 0.01
    script = f"rl_score_centering.py --gsm8k {problems}"
    spec["command"] = f"python dying.py --gsm8k {problems}; SEED=0 python {script} && SEED=1 python {script}"
    path = folder / "small.spec.json"
    path.write_text(json.dumps(spec))
    return path


@pytest.fixture(scope="module")
def ran(rx: Rx, problems: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of the Exchange, and the run's record."""
    data = tmp_path_factory.mktemp("exchange") / "data"
    spec = small_spec(tmp_path_factory.mktemp("spec") / "score_centering", problems)
    done = rx("run", str(spec), "--data", str(data), "--json")
    assert done.returncode in (0, 1), done.stderr
    return data, json.loads(done.stdout)


def test_every_gate_passes_and_the_last_call_decides(ran: tuple[Path, dict[str, Any]]) -> None:
    _, record = ran
    gates = {gate["gate"]: gate["status"] for gate in record["recorded"]["gates"]}
    not_asked = {"adaptation_manifests", "selection", "generation_audit"}
    assert gates == {name: "not_applicable" if name in not_asked else "passed" for name in gates}, record["recorded"]
    assert record["recorded"]["status"] == "succeeded"
    assert record["recorded"]["withholding_gates"] == []
    assert record["recorded"]["recorded_verdict"] == "inconclusive", "twelve problems settle nothing"
    assert record["state"]["outcome_reason"] == "insufficient_evidence"
    assert set(record["state"]["completed_arms"]) == {"base", *ARMS}
    assert record["recorded"]["deviations"]["items"] == []


def test_no_step_is_lost_or_taken_twice_and_each_shows_what_the_treatment_did(
    ran: tuple[Path, dict[str, Any]],
) -> None:
    data, record = ran
    evidence = files(data, record)
    first = {}
    for arm in ARMS:
        for seed in (0, 1):
            rows = [json.loads(line) for line in evidence[f"training-{arm}-seed{seed}.jsonl"].splitlines()]
            assert {(row["arm"], row["seed"]) for row in rows} == {(arm, seed)}
            assert [row["step"] for row in rows if "accuracy" in row] == list(range(0, STEPS + 1, EVERY))
            steps = [row for row in rows if "accuracy" not in row]
            assert [row["step"] for row in steps] == list(range(1, STEPS + 1))
            assert all({"reward_mean", "entropy_lower", "entropy_upper", "loss"} <= row.keys() for row in steps)
            learned = [row for row in steps if "sum_abs_c" in row]
            assert learned, "some answers are right"
            wanted = {"grad_norm", "logprob_gap", "head_mass_sampler", "head_mass_learner", "truncated"}
            assert all(wanted <= row.keys() for row in learned)
            assert all(row["largest_logprob_gap"] < 1e-3 for row in learned if row["step"] == 1), "the same weights"
            assert any(row["sum_abs_c"] > 0.01 for row in learned if row["step"] > 1), "older ones"
            first[arm, seed] = steps[0]["reward_mean"]
    assert first["stock", 0] == first["centered", 0], "one start, one batch, one sampling seed"


def test_the_drop_of_each_arm_is_reported(ran: tuple[Path, dict[str, Any]]) -> None:
    _, record = ran
    for arm in ARMS:
        numbers = {name: each["value"] for name, each in record["state"]["arms"][arm].items()}
        drops = [numbers[f"peak_accuracy_seed{s}"] - numbers[f"final_accuracy_seed{s}"] for s in (0, 1)]
        assert numbers["peak_minus_final"] == pytest.approx(sum(drops) / 2)
        assert min(drops) >= 0
        assert numbers["accuracy"] == pytest.approx(sum(numbers[f"final_accuracy_seed{s}"] for s in (0, 1)) / 2)


def test_what_died_went_on_from_its_checkpoint(ran: tuple[Path, dict[str, Any]]) -> None:
    data, _ = ran
    [work] = (data / "work").iterdir()
    states = {path.stem: json.loads(path.read_text()) for path in (work / "state").glob("training-*.json")}
    assert {name: state["step"] for name, state in states.items()} == dict.fromkeys(states, STEPS)
    assert {name: state["resumed"] for name, state in states.items()} == dict.fromkeys(states, 1), (
        "one from its step 2, the others from the start that the first call made"
    )


def test_every_restore_is_on_record_with_its_optimizer(ran: tuple[Path, dict[str, Any]]) -> None:
    data, record = ran
    restores = [name for name in files(data, record) if name.startswith("restore-")]
    assert sorted(name.rpartition("-")[0] for name in restores) == sorted(
        f"restore-{number}-of-{arm}" for arm in ARMS for number in (2, 3)
    )
