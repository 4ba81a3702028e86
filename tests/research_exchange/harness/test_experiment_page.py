"""The page that writes an experiment: its two files run, break off, go on and are judged; so do its other examples."""

import doctest
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tinker

from research_exchange import harness
from research_exchange.harness import gsm8k
from research_exchange.harness.learning_rates import Point
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.harness import test_audit, test_gsm8k, test_learning_rates
from tests.research_exchange.harness.comparing import evaluator, gate, new_run, score, with_seeds
from tests.servers import MODEL, SpindleServer

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "write-an-experiment.md").read_text()
MANUAL, _, FURTHER = PAGE.partition("## When an experiment does more")


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def example(word: str) -> str:
    """The further example with this word in it."""
    [found] = [block for block in blocks("python", FURTHER) if word in block]
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The two files as the page has them, but for the model, which is a tiny one."""
    [spec] = blocks("json", MANUAL)
    path = tmp_path / "capitals"
    path.mkdir()
    (path / "spec.json").write_text(spec.replace("HuggingFaceTB/SmolLM2-135M-Instruct", MODEL))
    (path / "train.py").write_text("\n\n".join(blocks("python", MANUAL)))
    return path


def wait_after_step_15(script: Path) -> None:
    """Let the script's first session stand still between two checkpoints, so that it can be broken off there."""
    text = script.read_text()
    saving = "        checkpoints.after(learner, step + 1)\n"
    assert text.count(saving) == 1
    waiting = "        if step == 14 and not checkpoints.state.resumed:\n            __import__('time').sleep(600)\n"
    script.write_text(text.replace(saving, saving + waiting))


def rx(served: ServedExchange, spindle: SpindleServer, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "research_exchange.cli", *arguments, "--data", str(served.data)]
    environment = {name: value for name, value in spindle.client_environment().items() if not name.startswith("RX_")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def test_the_experiment_breaks_off_goes_on_and_is_judged(
    served: ServedExchange, spindle: SpindleServer, folder: Path
) -> None:
    wait_after_step_15(folder / "train.py")
    running = rx(served, spindle, "run", str(folder / "spec.json"))
    assert running.stdout is not None
    said = []
    for line in running.stdout:
        said.append(line)
        print(line, end="")
        if line.startswith("step 12/30"):
            running.send_signal(signal.SIGINT)
    running.wait(60)
    run_id = "".join(said).partition("/runs/")[2].split()[0]
    run = served.connect().run(run_id)
    assert run.record()["state"]["completed_arms"].keys() == {"base"}, "".join(said)

    assert run.record()["sessions"][0]["ended_at"] is not None
    resumed = rx(served, spindle, "resume", run_id)
    went_on = resumed.communicate(timeout=200)[0]
    steps = [int(number) for number in re.findall(r"^step (\d+)/30", went_on, re.MULTILINE)]
    assert steps[-20:] == list(range(11, 31)), went_on
    assert steps.count(10) <= 1, "from the last checkpoint on; at most the first session is shown before"
    judgment = run.judgment()
    assert judgment["decision"]["status"] == "passed", went_on
    assert (judgment["recorded_verdict"], judgment["withholding_gates"]) == (judgment["decision"]["verdict"], [])
    assert {gate["status"] for gate in judgment["gates"]} == {"passed", "not_applicable"}
    assert judgment["decision"]["criteria"][0]["n"] == 200


def test_every_helper_in_the_table_is_there() -> None:
    named = re.findall(r"`(\w+)`", "".join(line for line in FURTHER.splitlines() if line.startswith("|")))
    helpers = [name for name in named if name not in ("activation_gate", "feasibility_required")]
    assert set(helpers) <= set(harness.__all__)
    assert len(helpers) >= 12


def test_numbers_are_read_as_the_page_says() -> None:
    [text] = blocks("pycon", FURTHER)
    parsed = doctest.DocTestParser().get_doctest(text, {}, "page", None, 0)
    assert len(parsed.examples) == 4
    assert doctest.DocTestRunner().run(parsed).failed == 0


def test_the_example_of_a_changed_evaluator(served: ServedExchange) -> None:
    run, first, second = new_run(served, with_seeds(0)), evaluator(), evaluator(max_tokens=6)
    comparison = harness.Comparison(run, first, arms=("trained", "untrained"))
    comparison.freeze()
    comparison.add(score("untrained", 1, of=first))
    again: list[Any] = []
    exec(
        example("comparison.change"),
        {"comparison": comparison, "corrected": second, "score_again": lambda arm, seed: again.append((arm, seed))},
    )
    assert again == [("untrained", 0)]


def test_the_example_of_gsm8k(served: ServedExchange, tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text(test_gsm8k.lines(test_gsm8k.ROWS))
    names: dict[str, Any] = {**vars(harness), "gsm8k": gsm8k, "folder": tmp_path, "run": new_run(served)}
    exec(example("gsm8k.load"), names)
    assert [item.reference for item in names["evaluator"].items] == ["2", "-1500"]
    assert names["run"].record()["evidence"][0]["kind"] == "effective_config"


def test_the_example_of_learning_rates(served: ServedExchange) -> None:
    run = new_run(served, test_learning_rates.tuned())
    names: dict[str, Any] = {
        **vars(harness),
        "run": run,
        "score_on_selection_items": lambda *point: test_learning_rates.trained_at(Point(*point), 4e-5),
    }
    exec(example("LearningRateSearch"), names)
    assert names["selection"]["learning_rates"]["trained"]["selected"] == 4e-5


@pytest.mark.parametrize(("wrong", "status"), [(0, "passed"), (12, "failed")])
def test_the_example_of_generated_tasks(served: ServedExchange, wrong: int, status: str) -> None:
    run = new_run(served, test_audit.spec())
    names = {**vars(harness), "run": run, "tasks": test_audit.tasks(wrong=wrong), "solve": test_audit.solve}
    exec(example("audit_generated"), names | {"evaluator": evaluator(items=tuple(test_audit.ITEMS))})
    assert gate(run, "generation_audit")["status"] == status
    assert (run.record()["state"]["status"] == "failed") == (status == "failed")


def test_the_example_of_signals(served: ServedExchange) -> None:
    answers = [tinker.types.SampledSequence(stop_reason="stop", sequence_id="s", _tokens_list=[1, 2])]
    run = new_run(served)
    names: dict[str, Any] = {
        **vars(harness),
        "rewards": [[1.0]],
        "answers": answers,
        "data": [],
        "output": None,
        "applied": {"grad_norm": 2.0},
        "tokens": 2,
        "progress": harness.Progress(run, steps=1),
    }
    exec(example("stability_signals"), names)
    assert run.record()["state"]["metrics"]["grad_norm"]["value"] == 2.0
