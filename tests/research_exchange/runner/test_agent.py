"""A coding agent, played by a program of its own that reads the brief and nothing else (R-050 to R-053, Q18)."""

import json
import re
import sys
import textwrap
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from research_exchange.client import Run
from research_exchange.runner.environment import PASSED_ON, command_environment
from research_exchange.runner.result import find_result
from research_exchange.runner.services import TRAINING_VARIABLES
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.runner.running import Rx
from tests.research_exchange.runner.specs import spec_document

AGENT = Path(__file__).parent / "agents" / "from_the_brief.py"

DOCS = Path(__file__).parents[3] / "docs"
PAGE, REFERENCE = DOCS / "how-to" / "run-with-an-agent.md", DOCS / "reference" / "rx-cli.md"

RunAgent = Callable[..., dict[str, Any]]


@pytest.fixture
def run_agent(rx: Rx, served: ServedExchange, tmp_path: Path) -> RunAgent:
    """Runs a spec by an agent, and returns the record of the run."""

    def _run(command: str, *, bound: float = 1.0, code: int = 0) -> dict[str, Any]:
        gate = {
            "applicable": True,
            "reason": "Training has to do anything at all.",
            "checks": [{"metric": "loss_ratio", "measures": "loss of the second step over the first", "max": bound}],
        }
        spec = tmp_path / "spec.json"
        spec.write_text(
            json.dumps(
                spec_document(
                    hypothesis="Training on one sentence lowers its loss.",
                    method="Train on one sentence, after a pilot of two steps.",
                    success_criterion="The last loss is below the first.",
                    activation_gate=gate,
                    lora_rank=4,
                    optimizer={"name": "adamw", "lr": 0.01},
                    steps=4,
                )
            )
        )
        ran = rx(
            "run", str(spec), "--runner", "agent", "--agent-command", command, "--data", str(served.data), "--json"
        )
        assert ran.returncode == code, ran.stderr
        record: dict[str, Any] = json.loads(ran.stdout)
        return record

    return _run


def test_an_agent_carries_a_run_out_from_the_brief_alone(run_agent: RunAgent, served: ServedExchange) -> None:
    record = run_agent(f"{sys.executable} {AGENT}")
    assert record["recorded"]["recorded_verdict"] == "supported"
    assert record["recorded"]["basis"] == "agreed"
    gates = {gate["gate"]: gate["status"] for gate in record["recorded"]["gates"]}
    assert gates["activation_gate"] == "passed"
    [session] = record["sessions"]
    assert (session["runner"], session["exit_code"]) == ("agent", 0)
    updates = f"{served.url}/api/runs/{record['id']}/updates"
    assert session["brief_sha256"] in httpx.get(f"{updates}/1").json()["summary"], "it was given the brief on record"
    brief = httpx.get(f"{served.url}/api/runs/{record['id']}/brief").content
    assert sha256(brief).hexdigest() == session["brief_sha256"]
    assert {"agent.py", f"log-{session['id']}.txt"} == {file["name"] for file in record["evidence"]}


def test_an_agent_stops_at_a_failing_gate(run_agent: RunAgent) -> None:
    record = run_agent(f"{sys.executable} {AGENT}", bound=0.0, code=1)
    assert record["state"]["summary"].startswith("The activation gate stopped the run: ")
    assert record["state"]["completed_arms"] == {}
    assert record["recorded"]["recorded_verdict"] == "inconclusive"
    [gate] = [gate for gate in record["recorded"]["gates"] if gate["gate"] == "activation_gate"]
    assert gate["status"] == "failed"


RESULT = {
    "status": "succeeded",
    "verdict": "inconclusive",
    "outcome_reason": "insufficient_evidence",
    "deviations": [],
    "original_hypothesis_tested": True,
    "summary": "It came out either way.",
    "completed_arms": ["only"],
    "activation_calibration": {"values": {"loss_ratio": 0.5}, "note": "Two steps."},
}


def test_q18_a_result_that_was_only_printed_becomes_the_final_update(run_agent: RunAgent, tmp_path: Path) -> None:
    (tmp_path / "said").write_text(f"I could not post.\n\nRESULT\n```json\n{json.dumps(RESULT, indent=2)}\n```\n")
    record = run_agent(f"cat > /dev/null; cat {tmp_path / 'said'}", code=1)
    assert record["state"]["final_update"] == 1
    assert record["state"]["summary"] == "It came out either way."
    assert record["recorded"]["reported_verdict"] == "inconclusive"
    assert record["recorded"]["basis"] == "gate", "what is printed at the end comes too late to let training start"


def test_r067_an_agent_that_says_nothing_leaves_a_partial_run(run_agent: RunAgent) -> None:
    record = run_agent("cat", code=1)
    assert record["recorded"]["outcome_reason"] == "incomplete_execution"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ('RESULT\n{"a": 1}', {"a": 1}),
        ('**RESULT:**\n\n```json\n{\n "a": {"b": 1}\n}\n```\nThat is all.', {"a": {"b": 1}}),
        ('## RESULT\n```\n{"a": 1}\n```', {"a": 1}),
        ('RESULT: {"a": 1}', {"a": 1}),
        ('RESULT\n{"a": 1}\nNo, this:\nRESULT\n{"a": 2}', {"a": 2}),
        ('RESULT\n{"a": 1}\nRESULT\n{"a": NaN}', {"a": 1}),
        ('RESULT\n{"a": 1, "a": 2}', None),
        ("RESULT\n[1]", None),
        ("RESULT", None),
        ('The RESULT is {"a": 1}', None),
        ('{"a": 1}', None),
        ("", None),
    ],
)
def test_q18_a_result_is_the_last_object_below_the_word(said: str, found: dict[str, Any] | None) -> None:
    assert find_result(said) == found


def test_the_page_about_agents_names_every_variable_and_its_example_is_a_result() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z_]+)`", page.partition("| variable | |")[2].partition("| what `--pass`")[0]))
    run = Run("http://127.0.0.1:1", "run_0123456789", "rxr_secret")
    everything = dict.fromkeys(PASSED_ON, "x")
    given = command_environment(
        run, dict.fromkeys(TRAINING_VARIABLES, "x"), state=Path(), is_resumed=True, passed={}, environment=everything
    )
    assert named == set(given) - {"PYTHONUNBUFFERED"}
    (example,) = re.findall(r"^    RESULT\n(?:    .*\n)+", page, re.MULTILINE)
    assert find_result(textwrap.dedent(example)) is not None
    for option in set(re.findall(r" (--[a-z-]+)", page)) - {"--print"}:
        assert f"| `{option}" in REFERENCE.read_text(encoding="utf-8"), option
