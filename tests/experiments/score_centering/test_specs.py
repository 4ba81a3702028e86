"""The specs of the score-centering experiment: their numbers agree with the script, and every change is listed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from experiments.score_centering.centering import preflights
from experiments.score_centering.centering.losses import Kind
from experiments.score_centering.centering.plan import Asked, Plan, parser
from research_exchange.documents.spec import Spec
from research_exchange.experiment_features import CHECKS, check_applicability
from research_exchange.feasibility import check_feasibility
from research_exchange.harness import HarnessError, revision_of, task_named
from research_exchange.lint import Level, lint
from research_exchange.power import power_card
from research_exchange.updates import fold
from tests.research_exchange.rules.support import updates_of
from tests.research_exchange.rules.test_lint import differences

FOLDER = Path(__file__).parents[3] / "experiments" / "score_centering"
NAMES = ("spec.json", "laptop.spec.json")
ORIGINAL = FOLDER.parents[2] / "shared" / "seeds" / "score_centering.spec.json"


def read(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return spec


def asked(name: str, *flags: str) -> Asked:
    return Asked.of(read(name), parser().parse_args(flags))


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CENTER", "SEED", "GSM8K"):
        monkeypatch.delenv(name, raising=False)


def test_the_original_is_the_authors_byte_for_byte() -> None:
    if not ORIGINAL.is_file():
        pytest.skip("the author's spec does not lie beside the repository, in ../shared/seeds")
    assert (FOLDER / "spec.original.json").read_bytes() == ORIGINAL.read_bytes()


@pytest.mark.parametrize(("before", "after"), [("spec.original.json", "spec.json"), NAMES])
def test_every_change_is_listed(before: str, after: str) -> None:
    [text] = [
        part
        for part in re.split(r"^## ", (FOLDER / "CHANGES.md").read_text(), flags=re.MULTILINE)
        if part.startswith(f"From `{before}` to `{after}`")
    ]
    assert sorted(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)) == sorted(differences(read(before), read(after)))


@pytest.mark.parametrize("name", NAMES)
def test_lint_finds_no_error_and_only_what_was_left(name: str) -> None:
    findings = lint(Spec.parse((FOLDER / name).read_bytes()))
    left = set(re.findall(r"\*\*(R-\w+)\*\*", (FOLDER / "CHANGES.md").read_text()))
    assert {finding.level for finding in findings} <= {Level.WARNING}
    assert {finding.rule for finding in findings} == left


@pytest.mark.parametrize("name", NAMES)
def test_the_rule_can_come_out_both_ways_at_its_number_of_items(name: str) -> None:
    [criterion] = power_card(Spec.parse((FOLDER / name).read_bytes())).criteria
    assert criterion.n == read(name)["eval"]["n_examples"]
    assert criterion.effect_to_support is not None
    assert criterion.effect_to_refute is not None
    assert 0 < criterion.effect_to_support < 0.1
    assert -0.03 < criterion.effect_to_refute < 0


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_agree_with_each_other_and_the_script(name: str) -> None:
    spec, plan = read(name), Plan.of_spec(read(name))
    shared = [
        {key: value for key, value in arm.items() if key not in ("name", "role", "loss", "weight")}
        for arm in spec["arms"]
    ]
    assert all(each == shared[0] for each in shared), "arms differ in their loss alone"
    assert spec["batch_size"] == plan.groups_per_batch * plan.group_size
    assert spec["dataset"]["n_examples"] == plan.steps * plan.groups_per_batch
    assert plan.steps % plan.evaluate_every == 0
    checks = {check["metric"]: check for check in spec["activation_gate"]["checks"]}
    assert checks["rollouts_per_step"]["min"] == checks["rollouts_per_step"]["max"] == spec["batch_size"]
    assert checks["rollouts_per_problem"]["min"] == checks["rollouts_per_problem"]["max"] == plan.group_size
    for text in (
        f"{plan.groups_per_batch} ",
        f"weights of {plan.stale_steps} steps before",
        f"{plan.top_k} likeliest tokens",
        f"A pilot of {preflights.pilot_steps(plan)} steps",
    ):
        assert text in spec["method"]
    assert {arm["name"] for arm in spec["restoration_preflight"]["groups"][0]["arms"]} == set(plan.arms)


def test_the_readme_states_the_budget_of_the_laptops_spec() -> None:
    spec, plan = read("laptop.spec.json"), Plan.of_spec(read("laptop.spec.json"))
    rollouts, tokens, items = spec["batch_size"], plan.max_tokens, plan.evaluation_items
    assert tokens is not None
    pilot, times = preflights.pilot_steps(plan), plan.steps // plan.evaluate_every
    trainings = len(plan.arms) * len(plan.seeds)
    training, evaluations, base = plan.steps * rollouts * tokens, times * items * tokens, items * tokens
    together, piloted = trainings * (training + evaluations), pilot * rollouts * tokens
    rows = (
        f"| a training | {plan.steps} steps x {rollouts} rollouts x {tokens} tokens | {training:,} |",
        f"| its evaluations | {times} times {items} items x {tokens} tokens | {evaluations:,} |",
        f"| {trainings} trainings, with evaluations | | {together:,} |",
        f"| the base model, once | {items} items x {tokens} tokens | {base:,} |",
        f"| the pilot | {pilot} steps x {rollouts} rollouts x {tokens} tokens | {piloted:,} |",
        f"| all | | {together + base + piloted:,} |",
    )
    assert "\n".join(rows) in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_optimizer_is_the_services_so_no_learning_rate_is_scaled(name: str) -> None:
    paths = read(name)["correctness_preflight"]["paths"]
    assert all(path["kind"] == "loss" and "lr_scaling" not in path for path in paths)


def test_the_sums_are_enough_for_the_trainings_and_the_pilot() -> None:
    plan = Plan.of_spec(read("laptop.spec.json"))
    task = task_named(plan.task, evaluation=plan.evaluation_items)
    needed = (plan.steps + preflights.pilot_steps(plan)) * plan.groups_per_batch
    assert needed <= len(task.training)
    assert task.max_tokens == plan.max_tokens


@pytest.mark.parametrize("name", NAMES)
def test_r10a_the_revisions_are_those_of_the_code_that_runs(name: str) -> None:
    plan, paths = Plan.of_spec(read(name)), read(name)["correctness_preflight"]["paths"]
    assert {path["id"] for path in paths} == {
        path for path, kind in preflights.PATHS.items() if kind in plan.arms.values()
    }
    for path in paths:
        assert path["reference_revision"] == revision_of(preflights.REFERENCE)
        assert path["baseline_revision"] == preflights.BASELINE_REVISION
        assert {"packed_loss", "packed_gradient"} <= path["tolerances"].keys()


@pytest.mark.parametrize("name", NAMES)
def test_every_check_is_required_or_ruled_out_by_an_explicit_false(name: str) -> None:
    found = {check: check_applicability(read(name), check)["status"] for check in CHECKS}
    assert {check for check, status in found.items() if status == "not_applicable"} == {
        "adaptation_manifests",
        "generation_audit",
        "selection",
    } & set(found)
    assert set(found.values()) <= {"required", "not_applicable"}


def test_without_flags_everything_is_trained_as_the_spec_says() -> None:
    given, written = asked("laptop.spec.json"), Plan.of_spec(read("laptop.spec.json"))
    assert given == Asked(written, ("stock", "centered", "plain"), (0, 1))
    assert given.plan.changes(written) == {
        "deviations": [],
        "original_hypothesis_tested": True,
        "tested_instead": "",
    }


def test_center_and_seed_narrow_a_call_from_flags_and_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked("laptop.spec.json", "--center", "plain").arms == ("plain",)
    monkeypatch.setenv("CENTER", "1")
    monkeypatch.setenv("SEED", "0")
    narrowed = asked("laptop.spec.json")
    assert (narrowed.arms, narrowed.seeds) == (("centered",), (0,))
    assert asked("laptop.spec.json", "--seed", "1", "--center", "0").arms == ("stock",)
    assert narrowed.plan.changes(Plan.of_spec(read("laptop.spec.json")))["deviations"] == []


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--center", "2"], "expected one of 0, 1, plain, found '2'"),
        (["--center", "plain"], "The spec has no arm for CENTER=plain; its arms are stock, centered."),
        (["--seed", "7"], "The spec schedules the seeds 0, 1; found SEED=7."),
        (["--stale-steps", "-1"], "stale_steps is 0 or more; found -1."),
        (["--top-k", "0"], "top_k is at least 1; found 0."),
    ],
)
def test_what_cannot_be_asked_for_is_said_in_a_sentence(
    flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        asked("spec.json", *flags)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "stated", "same_hypothesis"),
    [
        (["--steps", "3"], ("steps", "steps 3"), True),
        (["--learning-rate", "0.1"], ("lr", "learning_rate 0.1"), True),
        (["--evaluation-items", "50"], ("evaluator", "max_tokens 4, evaluation_items 50"), True),
        (["--max-tokens", "8", "--evaluation-items", "50"], ("evaluator", "max_tokens 8, evaluation_items 50"), True),
        (["--base-model", "a/b"], ("model", "base_model a/b"), True),
        (["--weight", "tis"], ("objective", "weight tis"), False),
        (["--stale-steps", "0"], ("objective", "stale_steps 0"), False),
        (["--top-k", "32"], ("objective", "top_k 32"), False),
    ],
)
def test_r075_r078_what_a_flag_changes_is_a_deviation(
    flags: list[str], stated: tuple[str, str], same_hypothesis: bool
) -> None:
    changes = asked("laptop.spec.json", *flags).plan.changes(Plan.of_spec(read("laptop.spec.json")))
    assert [(each["field"], each["effective"]) for each in changes["deviations"]] == [stated]
    assert changes["original_hypothesis_tested"] is same_hypothesis
    assert same_hypothesis or stated[1] in changes["tested_instead"]


@pytest.mark.parametrize(
    "flags",
    [(), ("--evaluation-items", "50"), ("--max-tokens", "8"), ("--steps", "3"), ("--base-model", "a/b")],
    ids=" ".join,
)
def test_r179_the_timings_of_a_changed_call_are_of_what_it_states(flags: tuple[str, ...]) -> None:
    spec, plan = read("laptop.spec.json"), asked("laptop.spec.json", *flags).plan
    units = {"training": plan.steps * 6, "evaluation": plan.evaluation_items * 7}
    timings = {
        "effective_config": {**spec, **plan.sizes(spec)},
        "primary_endpoint": spec["primary_endpoint"],
        "measurements": {
            name: {"seconds": 1, "units": 7, "planned_units": planned, "samples": 7} for name, planned in units.items()
        },
    }
    parsed = Spec.parse(json.dumps(spec).encode())
    posted = [{"status": "running", **plan.changes(Plan.of_spec(spec))}, {"status": "running", "feasibility": timings}]
    check = check_feasibility(parsed, fold(parsed, updates_of(posted)))
    assert [str(problem) for problem in check.problems if problem.rule in ("R-174", "R-179")] == []


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (("arms", 0, "group_size"), "share one group_size in this script, and stock has 9 where centered has 8"),
        (("arms", 2, "stale_steps"), "stock has 5 where plain has 9"),
        (("arms", 1, "steps"), "and the spec has 30 where centered has 9"),
        (("restoration_preflight", "groups", 0, "arms", 2, "optimizer_config"), "one optimizer_config"),
    ],
)
def test_arms_that_disagree_in_what_all_share_are_refused(path: tuple[str | int, ...], sentence: str) -> None:
    spec = read("laptop.spec.json")
    place: Any = spec
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = 9
    with pytest.raises(HarnessError, match=sentence):
        Plan.of_spec(spec)


def test_another_task_brings_its_own_length_of_answers() -> None:
    given = asked("laptop.spec.json", "--task", "gsm8k").plan
    assert (given.task, given.max_tokens) == ("gsm8k", None)
    fields = [each["field"] for each in given.changes(Plan.of_spec(read("laptop.spec.json")))["deviations"]]
    assert fields == ["endpoint", "evaluator"]


def test_each_value_of_center_is_a_loss() -> None:
    for name in NAMES:
        assert set(Plan.of_spec(read(name)).arms.values()) <= set(Kind)
