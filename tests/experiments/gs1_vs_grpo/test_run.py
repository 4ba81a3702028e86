"""The whole experiment, small: its gate stops it; revised, it goes on over an interruption to a verdict."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from experiments.gs1_vs_grpo.gs1.parity import SDK_REVISION
from experiments.gs1_vs_grpo.gs1.pilot import PILOT_STEPS, measured
from tests.experiments.evidence import files
from tests.research_exchange.runner.running import RX, Rx, environment_of
from tests.servers import MODEL, SpindleServer

FOLDER = Path(__file__).parents[3] / "experiments" / "gs1_vs_grpo"
STEPS, ROLLOUTS, GROUP, ITEMS = 8, 8, 4, 12
PATIENCE_SECONDS = 120
CONTROL = "uniform_seed0"


def small_spec(folder: Path, problems: Path, *, tau: float) -> Path:
    """The spec with little of everything, and with a control as a third arm, in a copy of its folder."""
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    spec: dict[str, Any] = json.loads((FOLDER / "spec.json").read_text())
    spec |= {"title": "GS1 vs GRPO, small", "base_model": MODEL, "lora_rank": 2, "steps": STEPS, "batch_size": ROLLOUTS}
    spec["eval"]["n_examples"] = ITEMS
    spec["dataset"]["n_examples"] = STEPS * ROLLOUTS
    spec["correctness_preflight"]["paths"][0]["baseline_revision"] = SDK_REVISION
    spec["method"] = f"With tau = {tau:g}."
    spec["command"] = f"python gs1_vs_grpo.py --tau {tau:g} --gsm8k {problems}"
    for arm, groups in zip(spec["arms"], (ROLLOUTS // GROUP, ROLLOUTS), strict=True):
        size = ROLLOUTS // groups
        arm |= {"steps": STEPS, "groups_per_batch": groups, "group_size": size, "max_tokens": 8}
    spec["arms"][1]["tau"] = tau
    spec["arms"].append({**spec["arms"][1], "name": CONTROL, "role": "control", "advantage_mode": "uniform_loo"})
    started = spec["restoration_preflight"]["groups"][0]["arms"]
    started.append({**started[1], "name": CONTROL})
    checks = {check["metric"]: check for check in spec["activation_gate"]["checks"]}
    checks["executed_base_model"]["one_of"] = [MODEL]
    checks["rollouts_per_step_both_arms"] |= {"min": ROLLOUTS, "max": ROLLOUTS}
    checks["gs1_effective_contributors_median"] |= {"min": 1.5, "max": 6.5}
    checks["gs1_mean_abs_baseline_minus_uniform_loo"]["min"] = 0.001
    checks["batch_mean_reward_pilot"]["min"] = 0.02
    path = folder / "small.spec.json"
    path.write_text(json.dumps(spec))
    return path


@pytest.fixture(scope="module")
def stopped(rx: Rx, problems: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run with the weights nearly equal: the folder of the Exchange, and the run's record."""
    data = tmp_path_factory.mktemp("exchange") / "data"
    spec = small_spec(tmp_path_factory.mktemp("spec") / "gs1_vs_grpo", problems, tau=10)
    ran = rx("run", str(spec), "--data", str(data), "--json")
    assert ran.returncode in (0, 1), ran.stderr
    return data, json.loads(ran.stdout)


def test_the_gate_stops_the_run_with_numbers_from_the_weights_and_a_revised_spec(
    stopped: tuple[Path, dict[str, Any]],
) -> None:
    data, record = stopped
    state, recorded = record["state"], record["recorded"]
    assert (state["status"], recorded["recorded_verdict"]) == ("failed", "inconclusive")
    assert state["outcome_reason"] == "insufficient_evidence"
    assert "most prompts share hardly a word" in state["summary"]
    evidence = files(data, record)
    [weights] = [content for name, content in evidence.items() if name.startswith("pilot-weights-")]
    contributors = measured(weights)["gs1_effective_contributors_median"]
    assert 6.5 < contributors < 7
    diagnosis = json.loads(evidence["diagnosis.json"])
    assert (diagnosis["gate"]["name"], diagnosis["cause"]) == ("activation_gate", "inactive_regime")
    assert f"{contributors:.4g} against an allowed 1.5 to 6.5" in diagnosis["explanation"]
    revised = json.loads(evidence["revised.spec.json"])
    assert revised["arms"][1]["tau"] < 1
    assert not [name for name in state["completed_arms"] if name != "base"]


def test_the_projection_counts_the_steps_that_were_piloted_and_those_of_every_arm(
    rx: Rx, stopped: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    data, record = stopped
    exported = tmp_path / "run.zip"
    assert rx("export", record["id"], str(exported), "--data", str(data)).returncode == 0
    with zipfile.ZipFile(exported) as bundle:
        updates = [json.loads(bundle.read(name)) for name in bundle.namelist() if name.startswith("updates/")]
    [training] = [each["feasibility"]["measurements"]["training"] for each in updates if "feasibility" in each]
    assert (training["units"], training["planned_units"]) == (2 * PILOT_STEPS, 3 * STEPS), "no control is piloted"


def test_with_the_revised_spec_the_same_code_goes_on_over_an_interruption_to_a_verdict(
    rx: Rx,
    spindle: SpindleServer,
    stopped: tuple[Path, dict[str, Any]],
    problems: Path,
    tmp_path: Path,
) -> None:
    data, record = stopped
    spec = small_spec(tmp_path / "gs1_vs_grpo", problems, tau=10)
    spec.write_bytes(files(data, record)["revised.spec.json"])
    again = tmp_path / "again"
    interrupt_after_a_checkpoint([*RX, "run", str(spec), "--data", str(again)], spindle, again)
    [work] = (again / "work").iterdir()
    resumed = rx("resume", work.name, "--data", str(again), "--json")
    assert resumed.returncode == 0, resumed.stderr
    record = json.loads(resumed.stdout)
    gates = {gate["gate"]: gate["status"] for gate in record["recorded"]["gates"]}
    not_asked = {"adaptation_manifests", "selection", "generation_audit"}
    assert gates == {name: "not_applicable" if name in not_asked else "passed" for name in gates}, record["recorded"]
    assert record["recorded"]["status"] == "succeeded"
    assert record["recorded"]["withholding_gates"] == []
    assert record["recorded"]["feasibility"]["status"] == "fits"
    assert set(record["state"]["completed_arms"]) == {"base", "grpo_gs8_seed0", "gs1_seed0", CONTROL}
    for arm in ("grpo_gs8_seed0", "gs1_seed0", CONTROL):
        rows = [json.loads(line) for line in files(again, record)[f"training-{arm}.jsonl"].splitlines()]
        assert [row["step"] for row in rows] == list(range(1, STEPS + 1)), "no step is lost or taken twice"
    states = [json.loads(path.read_text()) for path in (work / "state").glob("training-*-seed0.json")]
    restores = [name for name in files(again, record) if name.startswith("restore-")]
    assert len(restores) == sum(state["resumed"] for state in states) >= 1, "each restore is on record"


def test_the_service_of_the_flag_stands_for_that_of_the_environment(spindle: SpindleServer) -> None:
    environment = environment_of(spindle)
    address = environment["TINKER_BASE_URL"]
    asked = ["--measure_base", "--eval_items", "2", "--spec", "laptop.spec.json", "--model"]
    ran = subprocess.run(
        [sys.executable, "gs1_vs_grpo.py", *asked, MODEL, "--base_url", address],
        cwd=FOLDER,
        env={**environment, "TINKER_BASE_URL": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["items"] == 2


def interrupt_after_a_checkpoint(command: list[str], spindle: SpindleServer, data: Path) -> None:
    """kill -9 of the runner, once the first arm has a checkpoint to go on from."""
    with (data.parent / "rx.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment_of(spindle))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any('"step": 5' in path.read_text() for path in data.glob("work/*/state/training-*-seed0.json")):
        assert process.poll() is None and time.monotonic() < deadline, (data.parent / "rx.log").read_text()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
