"""R-10E: the command that guards a full run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from research_exchange.correctness.__main__ import main
from tests.research_exchange.rules.test_correctness import CASES, LOSS, document

EXIT_CODES = {"passed": 0, "not_applicable": 0, "failed": 1, "unverified": 3, "unknown": 3}


@pytest.mark.parametrize("name", CASES)
def test_command(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """R-10E"""
    case = CASES[name]
    bundle = document(case)
    update = {"status": "running"} | ({"correctness_preflight": bundle["report"]} if "report" in bundle else {})
    code, answer = run_command(tmp_path, capsys, bundle["spec"], update)
    assert (code, answer["status"]) == (EXIT_CODES[case["status"]], case["status"])
    assert {"status", "problems", "paths"} == answer.keys()
    assert {(p["rule"], p["path"]) for p in case["problems"]} <= {(p["rule"], p["path"]) for p in answer["problems"]}


def run_command(
    folder: Path, capsys: pytest.CaptureFixture[str], spec: Any, preflight: Any
) -> tuple[int, dict[str, Any]]:
    """Documents may be given as text."""
    paths = [folder / "spec.json", folder / "preflight.json"]
    for path, value in zip(paths, (spec, preflight), strict=True):
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    code = main([str(path) for path in paths])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, answer


def test_the_command_takes_the_plan_and_the_report_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, report = LOSS["spec"]["correctness_preflight"], LOSS["report"]
    code, answer = run_command(tmp_path, capsys, plan, report)
    assert (code, answer["status"], answer["problems"]) == (0, "passed", [])
    (path,) = answer["paths"]
    assert (path["id"], path["status"], path["lr_scaling"]) == ("advantage", "passed", [])
    assert path["comparisons"][0] == {
        "name": "baseline_loss",
        "status": "passed",
        "max_abs_error": 2**-21,
        "limit": 1e-6 + 1e-6 * 0.25,
        "cosine_similarity": 1,
        "min_cosine": None,
        "zero_reference": False,
        "rests_on_reference": False,
    }


def test_a_waived_plan_alone_does_not_show_that_the_check_may_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stock = {"required": False, "paths": []}
    assert run_command(tmp_path, capsys, stock, stock)[0] == 3


@pytest.mark.parametrize(
    ("spec", "preflight", "says"),
    [
        ("{", "{}", "Not JSON"),
        ("{}", "[]", "an empty list"),
        ('{"a": 1, "a": 2}', "{}", "stands twice"),
        ("{}", '{"paths": [{"errors": {"baseline_loss": {"max_abs_error": NaN}}}]}', "NaN"),
    ],
)
def test_the_command_refuses_what_is_not_json(
    spec: str, preflight: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = run_command(tmp_path, capsys, spec, preflight)
    assert (code, answer["status"], answer["paths"]) == (2, "unverified", [])
    assert says in answer["problems"][0]["text"]


@pytest.mark.parametrize("arguments", [[], ["a"], ["a", "b", "c"], ["nowhere/spec.json", "nowhere/preflight.json"]])
def test_the_command_names_what_is_wrong_with_its_arguments(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["rule"] == "R-10E"


def test_the_command_runs_as_a_module_and_explains_itself() -> None:
    command = [sys.executable, "-m", "research_exchange.correctness"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "SPEC.json PREFLIGHT.json" in done.stdout
    done = subprocess.run([*command, "only-one.json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, json.loads(done.stdout)["status"]) == (2, "", "unverified")
