"""One execution of a spec, on a real Exchange, beside a real training service."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from research_exchange.client import Run
from research_exchange.runner import LocalRun, Service, local
from research_exchange.runner.services import Child
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.runner.test_script import is_alive, wait_for
from tests.servers import SpindleServer

SPEC = {"title": "A spec for the runner's tests", "arms": [{"name": "trained"}, {"name": "untrained"}]}

HALF_DONE = """
from research_exchange.client import Run
run = Run.from_env()
run.arm("untrained", accuracy=0.24)
print("half done", flush=True)
"""

Prepare = Callable[..., LocalRun]


@pytest.fixture
def prepare(served: ServedExchange, spindle: SpindleServer, tmp_path: Path) -> Prepare:
    """A run of a script, ready to execute."""

    def _prepare(script: str, *, wall_seconds: float = 120, silence_seconds: float = 60, **others: Service) -> LocalRun:
        exchange = served.connect()
        folder = tmp_path / "spec"
        folder.mkdir()
        (folder / "train.py").write_text(script)
        return LocalRun(
            run=exchange.create_run(exchange.register(json.dumps(SPEC).encode())),
            spec_folder=folder,
            command="python train.py",
            training=others.get("training", Service(spindle.url, spindle.exports)),
            work=tmp_path / "work",
            wall_seconds=wall_seconds,
            silence_seconds=silence_seconds,
        )

    return _prepare


def log_of(run: Run) -> str:
    [name] = [file["name"] for file in run.record()["evidence"] if file["kind"] == "log"]
    return httpx.get(f"{run.page.replace('/runs/', '/api/runs/')}/evidence/{name}").text


def test_a_script_reports_to_its_run_and_leaves_its_log(prepare: Prepare) -> None:
    execution = prepare(HALF_DONE + 'run.finish(outcome_reason="insufficient_evidence", summary="It is done.")\n')
    ended = execution.execute()
    assert ended.exit_code == 0
    record = execution.run.record()
    assert record["state"]["status"] == "succeeded"
    assert record["state"]["summary"] == "It is done."
    assert [session["exit_code"] for session in record["sessions"]] == [0]
    assert log_of(execution.run) == "half done\n"
    assert not (execution.work / "folder").exists()


def test_a_script_runs_in_a_copy_with_named_variables_only(
    prepare: Prepare, spindle: SpindleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "not for scripts")
    execution = prepare("import os, json; print(json.dumps([os.getcwd(), *sorted(os.environ)]))\n")
    execution.execute()
    where, *names = json.loads(execution.log.read_text())
    assert Path(where) == execution.work / "folder" != execution.spec_folder
    assert {"RX_RUN_TOKEN", *spindle.exports} <= set(names)
    assert "MY_SECRET" not in names


def test_r067_a_script_that_fails_leaves_a_partial_run_with_the_reason(prepare: Prepare) -> None:
    execution = prepare(HALF_DONE + 'raise SystemExit("out of luck")\n')
    ended = execution.execute()
    assert ended.exit_code == 1
    record = execution.run.record()
    assert record["state"]["arms"]["untrained"]["accuracy"]["value"] == 0.24
    assert record["recorded"]["recorded_verdict"] == "inconclusive"
    assert record["recorded"]["outcome_reason"] == "incomplete_execution"
    assert "exit code 1" in record["recorded"]["explanation"]
    assert "out of luck" in log_of(execution.run)
    assert (execution.work / "folder").exists(), "kept, to be looked at"


def test_r067_a_script_that_says_nothing_final_is_partial_too(prepare: Prepare) -> None:
    execution = prepare(HALF_DONE)
    assert execution.execute().exit_code == 0
    assert execution.run.record()["recorded"]["outcome_reason"] == "incomplete_execution"


def test_r200_the_wall_limit_ends_a_script_and_its_children(prepare: Prepare) -> None:
    execution = prepare("import os; os.system('sleep 300 & echo $! > child; wait')\n", wall_seconds=2)
    began = time.monotonic()
    ended = execution.execute()
    assert time.monotonic() - began < 30
    assert ended.exit_code is None
    assert ended.reason == "The script was stopped at the wall limit of 2 s."
    assert not is_alive(int((execution.work / "folder" / "child").read_text()))
    assert ended.reason in execution.run.record()["recorded"]["explanation"]


def test_a_training_service_that_falls_silent_ends_the_run(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address stops answering, as after kill -9 or a cut cable; the script itself would wait for ever."""
    monkeypatch.setattr(local, "HEALTH_SECONDS", 0.2)
    execution = prepare(
        HALF_DONE + "import time; time.sleep(300)\n", silence_seconds=3, training=Service("http://127.0.0.1:9")
    )
    ended = execution.execute()
    assert ended.reason == (
        "The training service at http://127.0.0.1:9 has not answered for 3 s, so the script was stopped."
    )
    recorded = execution.run.record()["recorded"]
    assert (recorded["recorded_verdict"], recorded["outcome_reason"]) == ("inconclusive", "incomplete_execution")


def test_a_training_service_that_answers_is_left_in_peace(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "HEALTH_SECONDS", 0.2)
    execution = prepare("import time; time.sleep(6)\n", silence_seconds=3)
    assert execution.execute().exit_code == 0


def test_a_training_service_that_was_started_here_and_dies_ends_the_run_at_once(
    prepare: Prepare, spindle: SpindleServer, tmp_path: Path
) -> None:
    sleeper = [sys.executable, "-c", "import time; print('export A=1', flush=True); time.sleep(300)"]
    child = Child(sleeper, announces=["A"], log=tmp_path / "service.log")
    child.wait_until_ready(30)
    execution = prepare(HALF_DONE + "import time; time.sleep(300)\n", training=Service(spindle.url, {}, child))

    def kill_when_half_done() -> None:
        if "half done" in execution.log.read_text():
            child.stop()

    ended = execution.execute(kill_when_half_done)
    assert ended.reason == "The training service was ended by SIGTERM during the run, so the script was stopped."
    assert list(execution.run.record()["state"]["completed_arms"]) == ["untrained"]


def test_stopping_the_runner_ends_the_script_and_closes_the_session(prepare: Prepare) -> None:
    execution = prepare("import os, time; open('pid', 'w').write(f'{os.getpid()}\\n'); time.sleep(300)\n")
    seen: list[int] = []

    def interrupt() -> None:
        seen.append(int(wait_for(execution.work / "folder" / "pid")))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execution.execute(interrupt)
    assert not is_alive(seen[0])
    [session] = execution.run.record()["sessions"]
    assert session["reason"] == "The runner was stopped before the script ended."


def test_r169_a_log_with_a_credential_is_refused_and_the_run_goes_on(prepare: Prepare) -> None:
    secret = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3h"
    execution = prepare(f"print('token', '{secret[:10]}' + '{secret[10:]}')\n")
    assert execution.execute().exit_code == 0
    record = execution.run.record()
    assert record["evidence"] == []
    assert "R-169" in record["state"]["summary"]
    assert secret not in json.dumps(record)
