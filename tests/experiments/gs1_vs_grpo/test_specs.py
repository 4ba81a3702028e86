"""The specs, the script and the reference say the same, and on real problems the gate decides as the pages say."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.gs1_vs_grpo.gs1.baselines import Mode, TauRow
from experiments.gs1_vs_grpo.gs1.parity import REFERENCE, SDK_REVISION
from experiments.gs1_vs_grpo.gs1.pilot import PILOT_STEPS, piloted_arms
from experiments.gs1_vs_grpo.gs1.plan import Plan, options
from experiments.gs1_vs_grpo.gs1.stopped import (
    CONTRIBUTORS,
    MODEL,
    REWARD,
    _cause,
    failed_checks,
    planned_table,
    revised_spec,
    revision,
)
from research_exchange.documents.spec import Spec
from research_exchange.harness import Cause, HarnessError, revision_of
from research_exchange.lint import Level, lint

FOLDER = REFERENCE.parent
GSM8K = Path(__file__).parents[4] / "shared" / "data" / "gsm8k"
SPECS = ("spec.json", "revised.spec.json", "laptop.spec.json")


def read(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads((FOLDER / name).read_bytes())
    return spec


@pytest.fixture
def gsm8k() -> Path:
    if not GSM8K.is_dir():
        pytest.skip("GSM8K does not lie beside the repository, in ../shared/data/gsm8k")
    return GSM8K


@pytest.mark.parametrize("name", SPECS)
def test_lint_finds_no_error(name: str) -> None:
    assert Level.ERROR not in {finding.level for finding in lint(Spec.parse((FOLDER / name).read_bytes()))}


@pytest.mark.parametrize("name", SPECS)
def test_the_numbers_of_a_spec_agree_with_each_other_and_with_its_command(name: str) -> None:
    spec = read(name)
    plan = Plan.of_spec(spec)
    assert {arm.mode for arm in plan.arms} == {Mode.GRPO, Mode.GS1}
    assert {arm.rollouts_per_step for arm in plan.arms} == {spec["batch_size"]} == {64}
    assert {arm.steps for arm in plan.arms} == {spec["steps"]}
    assert spec["dataset"]["n_examples"] == plan.treatment.steps * plan.treatment.groups_per_batch
    assert plan.optimizer["learning_rate"] == spec["optimizer"]["lr"] == spec["arms"][0]["lr"] == spec["arms"][1]["lr"]
    assert spec["decision_rule"]["seeds"] == [plan.treatment.seed]
    assert f"tau = {plan.treatment.tau:g}" in spec["method"]
    [path] = spec["correctness_preflight"]["paths"]
    assert path["reference_revision"] == revision_of(REFERENCE)
    words = spec["command"].splitlines()[-1].split()
    assert words[:2] == ["python", "gs1_vs_grpo.py"], "a line for the shell, without anything to fill in"
    assert not {"{", "}", "|"} & set(spec["command"].splitlines()[-1])
    given = options(words[2:])
    assert plan.changed(given) == plan
    assert plan.deviations(plan, given)["deviations"] == []


def test_the_laptop_pins_a_stock_loss_that_is_installed_with_the_harness() -> None:
    [path] = read("laptop.spec.json")["correctness_preflight"]["paths"]
    assert path["baseline_revision"] == SDK_REVISION


def test_the_budget_in_tokens_is_that_of_the_arms() -> None:
    spec = read("laptop.spec.json")
    plan = Plan.of_spec(spec)
    items, tokens, pilots = plan.eval_items, plan.load_task(None).max_tokens, len(piloted_arms(plan))
    for arm in plan.arms:
        step = f"{arm.rollouts_per_step} rollouts x {tokens} tokens"
        cost = arm.rollouts_per_step * tokens
        assert f"{arm.steps} steps x {step} = {arm.steps * cost} for each arm" in spec["method"]
        piloted = pilots * PILOT_STEPS * cost
        assert f"{pilots} pilots x {PILOT_STEPS} steps x {step} = {piloted}." in spec["method"]
    scored = 1 + len(plan.arms)
    assert (
        f"{scored} evaluations, of the base model and of each arm, x {items} items x {tokens} tokens = "
        in spec["method"]
    )
    assert f" = {scored * items * tokens};" in spec["method"]


def test_every_part_that_the_laptop_changes_is_on_its_page() -> None:
    large, small = read("spec.json"), read("laptop.spec.json")
    page = (FOLDER / "CHANGES.md").read_text().partition("# What `laptop.spec.json` changes")[2]
    assert not [part for part in large if large[part] != small[part] and part not in page]
    assert small["experiment_features"] == large["experiment_features"]
    for one, other in zip(large["activation_gate"]["checks"], small["activation_gate"]["checks"], strict=True):
        assert one == other or one["metric"] == "executed_base_model", "thresholds are the original's"


def rows(name: str, gsm8k: Path | None) -> dict[float, TauRow]:
    plan = Plan.of_spec(read(name))
    return {row.tau: row for row in planned_table(plan, plan.load_task(gsm8k))}


def test_on_real_problems_the_check_of_contributors_fails_with_the_original_tau_and_passes_with_the_revised_one(
    gsm8k: Path,
) -> None:
    """From the prompts alone: no answer can change it."""
    table = rows("spec.json", gsm8k)
    [check] = [check for check in read("spec.json")["activation_gate"]["checks"] if check["metric"] == CONTRIBUTORS]
    original, revised = (table[read(name)["arms"][1]["tau"]] for name in ("spec.json", "revised.spec.json"))
    assert original.lowest > check["max"] == 40
    assert (round(original.lowest, 1), round(original.median, 1), round(original.highest, 1)) == (45.3, 50.8, 54.5)
    assert check["min"] <= revised.lowest and revised.highest <= check["max"]
    page = (FOLDER / "CHANGES.md").read_text()
    for row in (original, revised):
        assert f"| {row.tau:g} | {row.lowest:.1f} | {row.median:.1f} | {row.highest:.1f} |" in page


def test_the_revised_spec_is_the_one_that_a_stopped_run_leaves(gsm8k: Path) -> None:
    spec = read("spec.json")
    plan = Plan.of_spec(spec)
    found = revision(spec, plan, plan.load_task(gsm8k))
    assert found is not None
    assert revised_spec(spec, found.tau) == read("revised.spec.json")
    assert {part for part in spec if spec[part] != read("revised.spec.json")[part]} == {"arms", "method", "command"}


def test_the_laptop_has_the_temperature_that_the_rule_gives_for_its_sums() -> None:
    spec = read("laptop.spec.json")
    plan = Plan.of_spec(spec)
    found = revision(spec, plan, plan.load_task(None))
    assert found is not None and found.tau == plan.treatment.tau


def test_the_script_finds_its_modules_in_a_copy_of_its_folder_alone(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    arguments = ["gs1_vs_grpo.py", "--similarity_table", "--spec", "laptop.spec.json"]
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path / "copy", capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("TfidfVectorizer(analyzer='char', ngram_range=(1, 2)), 60 steps of 64 prompts\n")
    assert len([line for line in ran.stdout.splitlines() if line.startswith("| 0.2 |")]) == 1


def test_what_flags_change_is_stated() -> None:
    written = Plan.of_spec(read("spec.json"))
    given = options(["--steps", "4", "--tau", "0.05", "--lr", "1e-4", "--rollouts_per_step", "16"])
    plan = written.changed(given)
    assert [(arm.groups_per_batch, arm.group_size, arm.steps) for arm in plan.arms] == [(2, 8, 4), (16, 1, 4)]
    assert plan.adamw().learning_rate == 1e-4
    stated = plan.deviations(written, given)
    assert {each["field"] for each in stated["deviations"]} == {
        "steps",
        "tau",
        "learning_rate",
        "effective_batch",
    }
    assert stated["original_hypothesis_tested"] is True
    with pytest.raises(HarnessError, match="does not divide into groups of 8"):
        written.changed(options(["--rollouts_per_step", "12"]))


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("max_tokens", "max_tokens: expected one value for all of them, found 8 and 4"),
        ("lr", "the learning rate: expected one value for all of them, found 0.0003 and 0.1"),
        ("optimizer_config", "optimizer_config in restoration_preflight: expected one value"),
        ("vectorizer", "vectorizer: expected one value"),
    ],
)
def test_arms_that_disagree_where_the_script_has_one_value_are_refused(setting: str, found: str) -> None:
    spec = read("laptop.spec.json")
    [group] = spec["restoration_preflight"]["groups"]
    arm = group["arms"][1] if setting == "optimizer_config" else spec["arms"][0]
    arm[setting] = {"max_tokens": 8, "lr": 0.1}.get(setting, {"arguments": {}})
    with pytest.raises(HarnessError, match=f"^The spec's arms disagree about {found}"):
        Plan.of_spec(spec)


def test_a_seed_that_the_rule_could_not_decide_about_is_refused() -> None:
    written = Plan.of_spec(read("spec.json"))
    with pytest.raises(HarnessError, match=r"--seed: expected a seed that .* schedules, 0; found 5\."):
        written.changed(options(["--seed", "5"]))


def test_the_folder_of_gsm8k_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSM8K", "/somewhere")
    assert options([]).gsm8k == Path("/somewhere")
    assert options(["--gsm8k", "here"]).gsm8k == Path("here")
    monkeypatch.setenv("GSM8K", "")
    assert options([]).gsm8k is None


def test_another_task_is_another_endpoint_with_answers_as_long_as_that_task_has_them(gsm8k: Path) -> None:
    written = Plan.of_spec(read("laptop.spec.json"))
    given = options(["--task", "gsm8k"])
    plan = written.changed(given)
    stated = plan.deviations(written, given)
    assert [(each["field"], each["effective"]) for each in stated["deviations"]] == [
        ("endpoint", "gsm8k"),
        ("max_tokens", "the task's own"),
    ]
    assert stated["original_hypothesis_tested"] is False
    assert stated["tested_instead"] == "The experiment with the task gsm8k."
    assert plan.load_task(gsm8k).max_tokens > 100
    assert written.changed(options(["--task", "gsm8k", "--max_tokens", "64"])).max_tokens == 64
    assert written.changed(options(["--task", "arithmetic"])) == written


@pytest.mark.parametrize("flag", ["tau", "lr", "steps", "eval_items", "max_tokens", "rollouts_per_step", "lora_rank"])
@pytest.mark.parametrize("value", ["0", "-3", "nan", "some"])
def test_a_flag_of_nothing_is_refused(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = "a number above 0" if flag in ("tau", "lr") else "a whole number, at least 1"
    with pytest.raises(SystemExit):
        options([f"--{flag}", value])
    assert f"argument --{flag}: expected {expected}, found '{value}'" in capsys.readouterr().err


def test_the_readme_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(["--help"])
    flags = set(re.findall(r"--[a-z0-9_]+", capsys.readouterr().out)) - {"--help"}
    of_rx = {"--pass"}
    assert flags | of_rx == set(re.findall(r"--[a-z0-9_]+", (FOLDER / "README.md").read_text()))


@pytest.mark.parametrize(
    ("mode", "trained", "tested"),
    [
        ("grpo", ["grpo_gs8_seed0"], True),
        ("gs1", ["gs1_seed0"], True),
        ("uniform_loo", ["gs1_seed0"], False),
        ("gs1_shuffled", ["gs1_seed0"], False),
    ],
)
def test_a_mode_trains_its_arm_and_a_control_stands_in_for_the_treatment(
    mode: str, trained: list[str], tested: bool
) -> None:
    plan, given = Plan.of_spec(read("spec.json")), options(["--advantage_mode", mode])
    assert [(arm.name, arm.mode) for arm in plan.trained(given.advantage_mode)] == [(trained[0], mode)]
    stated = plan.deviations(plan, given)
    assert stated["original_hypothesis_tested"] is tested
    assert {each["field"] for each in stated["deviations"]} == ({"arms"} if tested else {"arms", "objective"})
    assert bool(stated["tested_instead"]) is not tested


def test_the_arms_read_the_same_problems_in_the_same_fixed_order() -> None:
    plan = Plan.of_spec(read("laptop.spec.json"))
    problems = plan.load_task(None).training
    of_grpo = [problem for step in range(8) for problem in plan.baseline.batch(problems, step)]
    assert of_grpo == plan.treatment.batch(problems, 0) == list(problems[:64])
    last = plan.treatment.batch(problems, 9)
    assert last == [*problems[576:], *problems[: 64 - len(problems[576:])]]
    assert len({problem.id for problem in last}) == 64, "no prompt twice in a step"


def test_failed_checks_are_those_of_the_spec_that_the_pilot_does_not_meet() -> None:
    spec = read("laptop.spec.json")
    values: dict[str, float | str] = {
        "gs1_executed_group_size": 1,
        "rollouts_per_step_both_arms": 64,
        "gs1_effective_contributors_median": 50.75,
        "gs1_mean_abs_baseline_minus_uniform_loo": 0.05,
        "batch_mean_reward_pilot": 0.03,
        "executed_base_model": spec["base_model"],
    }
    failed = failed_checks(spec, values)
    assert [each.metric for each in failed] == [CONTRIBUTORS, REWARD]
    assert str(failed[0]) == "gs1_effective_contributors_median is 50.75 against an allowed 2 to 40"
    assert [each.is_below for each in failed] == [False, True]
    assert replace(failed[0], value=1.5).is_below
    del values[REWARD]
    assert [each.value for each in failed_checks(spec, values)] == [50.75, "not measured"]


@pytest.mark.parametrize(
    ("metrics", "cause"),
    [
        ({CONTRIBUTORS, REWARD, MODEL}, Cause.INACTIVE_REGIME),
        ({MODEL}, Cause.WRONG_REFERENCE),
        ({CONTRIBUTORS, "rollouts_per_step_both_arms"}, Cause.DEFECT),
    ],
)
def test_a_script_that_did_something_else_is_told_apart_from_a_regime_with_nothing_to_do(
    metrics: set[str], cause: Cause
) -> None:
    assert _cause(metrics) is cause
