"""The manual runner: a person gets brief and token, works as the brief says, and is stopped by the spec's own gates.

The two original specs are carried to that point, each as an honest person would.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from research_exchange.client import Run
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.runner.running import RX, Rx, environment_of
from tests.servers import SpindleServer

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
GS1 = EXPERIMENTS / "gs1_vs_grpo" / "spec.original.json"
CENTERING = EXPERIMENTS / "score_centering" / "spec.original.json"


def handed_over(rx: Rx, served: ServedExchange, spec: Path) -> tuple[Run, dict[str, Any]]:
    """A run as the person gets it."""
    ran = rx("run", str(spec), "--runner", "manual", "--legacy", "--data", str(served.data), "--json")
    assert ran.returncode == 0, ran.stderr
    given = json.loads(ran.stdout)
    return Run(given["url"], given["run"], given["token"], patience=30), given


def test_gs1_is_stopped_by_its_unresolved_reference(rx: Rx, served: ServedExchange) -> None:
    """R-109: the spec leaves the revision of its reference open, so there is nothing to hold an error against."""
    run, given = handed_over(rx, served, GS1)
    spec = json.loads(GS1.read_bytes())
    assert f"Your run is `{run.id}`" in given["brief"]
    assert given["token"] not in given["brief"]
    assert "reference_revision" in given["brief"]
    run.update(summary="Starting with the correctness preflight, as the brief asks.", deviations=[])
    run.evidence("parity.py", "script", "print('compare both advantages on fixed inputs')\n")
    [path] = spec["correctness_preflight"]["paths"]
    exact = {"max_abs_error": 0.0, "reference_max_abs": 1.0, "relative_l2_error": 0.0, "cosine_similarity": 1.0}
    measured = {
        "id": path["id"],
        "fixed_input": {"sha256": "0" * 64, "description": "8 groups of 8 rollouts"},
        "baseline_revision": path["baseline_revision"],
        "reference_revision": path["reference_revision"],
        "implementation_revision": "parity.py",
        "precision": "float64",
        "normalization": "mean over tokens",
        "errors": {"baseline_loss": {**exact, "cosine_similarity": None}, "baseline_gradient": exact},
    }
    run.update(correctness_preflight={"required": True, "paths": [measured]})
    gate = run.gate("correctness_preflight")
    assert gate.status == "unverified"
    assert not gate.may_go_on
    assert any(
        problem.startswith("R-109") and "correctness_preflight.paths[0].reference_revision" in problem
        for problem in gate.problems
    ), gate.problems
    run.finish(
        status="failed",
        outcome_reason="insufficient_evidence",
        original_hypothesis_tested=True,
        deviations=[],
        summary="The reference revision is unresolved, so full training may not start. The spec needs a revision.",
    )
    recorded = run.record()["recorded"]
    assert recorded["recorded_verdict"] == "inconclusive"
    shown = rx("show", run.id, "--data", str(served.data), COLUMNS="200")
    assert "correctness_preflight.paths[0].reference_revision" in shown.stdout
    assert "R-109" in shown.stdout


def test_score_centering_is_a_legacy_spec_whose_own_checks_stop_it(rx: Rx, served: ServedExchange) -> None:
    """R-026, R-054: it declares no features, so every check is unknown, and the brief asks for the careful way."""
    run, given = handed_over(rx, served, CENTERING)
    assert "**Context:** unknown" in given["brief"]
    assert "unknown: prepare for yes" in given["brief"]
    run.update(summary="Probing each arm with one step before anything trains.", deviations=[])
    gate = run.gate("correctness_preflight")
    assert not gate.may_go_on
    assert gate.status == "unknown"
    run.finish(
        status="failed",
        outcome_reason="incomplete_execution",
        original_hypothesis_tested=True,
        deviations=[],
        summary="The loss is custom and the spec has no reference to hold it against. The spec needs a revision.",
    )
    record = run.record()
    assert record["recorded"]["recorded_verdict"] == "inconclusive"
    assert record["recorded"]["basis"] == "incomplete_execution"
    assert record["sessions"][0]["runner"] == "manual"


def test_a_spec_that_lint_finds_errors_in_needs_to_be_admitted(rx: Rx, served: ServedExchange, tmp_path: Path) -> None:
    document = {**json.loads(CENTERING.read_bytes()), "title": "A copy of a legacy spec"}
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(document))
    refused = rx("run", str(path), "--runner", "manual", "--data", str(served.data))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "R-031" in refused.stderr


def test_the_brief_goes_to_stdout_and_the_token_to_the_terminal(rx: Rx, served: ServedExchange) -> None:
    ran = rx("run", str(GS1), "--runner", "manual", "--legacy", "--data", str(served.data))
    assert ran.stdout.startswith("# ")
    assert "rxr_" not in ran.stdout
    assert f"export RX_URL={served.url} RX_RUN_ID=run_" in ran.stderr
    assert "RX_RUN_TOKEN=rxr_" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--runner", "manual", "--queue"], "The manual runner hands over one spec at a time, and none to a queue."),
        (["--runner", "nobody"], "There is no runner 'nobody'"),
        (["--runner", "agent"], "Which agent? Name its command with --agent-command or in RX_AGENT_COMMAND."),
        (["--limit", "memory=much"], "A limit is NAME=NUMBER, with memory or cpu or file or files"),
        (["--pass", "NOWHERE_SET"], "--pass names NOWHERE_SET, which is not set here."),
        (["--redo", "always"], "--redo is auto or never; found 'always'."),
        (["--profile", "moon"], "There is no service profile 'moon'"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_a_sentence(rx: Rx, arguments: list[str], sentence: str) -> None:
    ran = rx("run", str(GS1), *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert sentence in ran.stderr


@contextmanager
def open_process(command: list[str], environment: dict[str, str], stderr: Path) -> Iterator["Popen[str]"]:
    with stderr.open("w") as log, Popen(command, env=environment, stdout=PIPE, stderr=log, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_without_an_exchange_one_is_served_for_as_long_as_the_person_works(
    spindle: SpindleServer, tmp_path: Path
) -> None:
    command = [*RX, "run", str(GS1), "--runner", "manual", "--legacy", "--json", "--data", str(tmp_path / "data")]
    log = tmp_path / "stderr.txt"
    with open_process(command, dict(environment_of(spindle)), log) as process:
        assert process.stdout is not None
        said = ""
        while not said.endswith("\n}\n"):
            line = process.stdout.readline()
            assert line, f"rx ended with {process.wait(60)}: {log.read_text()}"
            said += line
        given = json.loads(said)
        run = Run(given["url"], given["run"], given["token"], patience=30)
        assert run.update(summary="Still here.") == 1
