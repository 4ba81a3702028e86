"""`rx` as a person uses it: a process with output and an exit code."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.runner.running import Rx
from tests.research_exchange.runner.specs import spec_folder
from tests.servers import SpindleServer

SCRIPT = """
from research_exchange.client import Run
run = Run.from_env()
print("Here we go.")
run.update(summary="Getting going.")
for step in range(1, 3):
    run.metric(step=step, steps=2, reward=step / 2, loss=0.1, tokens_per_second=100.0, seconds_left=61.0)
run.arm("only", accuracy=0.5)
run.finish(outcome_reason="insufficient_evidence", summary="It is [bold]done[/].")
"""


def test_what_to_try_next_can_be_typed_as_it_stands(
    served: ServedExchange, spindle: SpindleServer, spec: Path, tmp_path: Path
) -> None:
    """Without an activated environment the shell does not find `rx`."""
    program = Path(sys.executable).with_name("rx")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "COLUMNS": "200", **spindle.exports}
    command = [str(program), "run", str(spec), "--data", str(served.data)]
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert f"{program} show run_" in shown.stdout


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return spec_folder(tmp_path / "spec", SCRIPT, title="A [red]spec[/]", evil="[/]")


def test_a_run_is_shown_live_and_ends_with_its_verdict(rx: Rx, served: ServedExchange, spec: Path) -> None:
    shown = rx("run", str(spec), "--data", str(served.data))
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [line.strip() for line in shown.stdout.splitlines()]
    assert "Running A [red]spec[/] as run_" in shown.stdout, "what a spec says is text, not markup"
    assert "Getting going." in lines
    assert "step 2/2  reward 1.000  loss +0.1000  100 tokens/s  1:01 left" in lines
    assert "only: accuracy 0.500" in lines
    assert "It is [bold]done[/]." in lines
    assert "Recorded: inconclusive" in shown.stdout
    assert f"{served.url}/runs/run_" in shown.stdout
    assert "rxr_" not in shown.stdout


def test_the_same_as_json(rx: Rx, served: ServedExchange, spec: Path) -> None:
    ran = rx("run", str(spec), "--data", str(served.data), "--json")
    record = json.loads(ran.stdout)
    assert record["recorded"]["recorded_verdict"] == "inconclusive"
    for command in ("show", "judge"):
        answer = rx(command, record["id"], "--data", str(served.data), "--json")
        assert answer.returncode == 0
        assert json.loads(answer.stdout)
    shown = rx("show", record["id"], "--data", str(served.data))
    assert "accuracy" in shown.stdout
    assert "log-ses_" in shown.stdout
    listed = rx("runs", "--data", str(served.data))
    assert record["id"] in listed.stdout


def test_a_script_that_fails_is_told_with_where_to_look(rx: Rx, served: ServedExchange, spec: Path) -> None:
    (spec.parent / "train.py").write_text("raise SystemExit('out of luck')\n")
    ran = rx("run", str(spec), "--data", str(served.data), COLUMNS="300")
    assert ran.returncode == 1
    assert "The script ended with exit code 1" in ran.stdout
    [log] = [line.partition("own words:")[2] for line in ran.stdout.splitlines() if "own words:" in line]
    assert log.strip(" │").startswith(str(served.data))


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["run", "nowhere.json"], 2, "nowhere.json cannot be read: No such file or directory."),
        (["show", "run_0000000000"], 2, "run_0000000000"),
        (
            ["show", "run_0000000000", "--exchange", "http://127.0.0.1:9"],
            3,
            "No Exchange answers at http://127.0.0.1:9",
        ),
        (["frobnicate"], 2, "No such command"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_a_code(
    rx: Rx, served: ServedExchange, arguments: list[str], code: int, sentence: str
) -> None:
    options = ["--data", str(served.data)] if arguments[0] != "frobnicate" else []
    answer = rx(*arguments, *options)
    assert answer.returncode == code
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"title": "x"', "spec.json is not a spec: Not JSON at line 1, column 14"),
        ('{"title": "x"}', "The spec has no command to run"),
    ],
)
def test_a_spec_that_cannot_run_is_refused(
    rx: Rx, served: ServedExchange, spec: Path, text: str, sentence: str
) -> None:
    spec.write_text(text)
    answer = rx("run", str(spec), "--data", str(served.data))
    assert (answer.returncode, answer.stdout) == (2, "")
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_training_service_that_is_not_there_is_code_3(rx: Rx, served: ServedExchange, spec: Path) -> None:
    answer = rx("run", str(spec), "--data", str(served.data), TINKER_BASE_URL="http://127.0.0.1:9")
    assert answer.returncode == 3
    assert "No training service answers at http://127.0.0.1:9" in answer.stderr


def test_help_is_quick(rx: Rx) -> None:
    began = time.monotonic()
    assert rx("--help").returncode == 0
    assert time.monotonic() - began < 3
