"""One execution of a spec, on a real Exchange, beside a real training service."""

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from research_exchange.client import Exchange, Run
from research_exchange.documents.spec import Spec
from research_exchange.runner import (
    Launch,
    Means,
    NoTimeLeft,
    Service,
    Sitting,
    WorkFolder,
    health,
    presence,
    seconds_left,
    sitting,
)
from research_exchange.runner.logs import evidence_bytes
from research_exchange.runner.services import Child
from research_exchange.runner.work_folder import SessionFolder
from research_exchange.server import updating
from research_exchange.web import create_app
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.runner.test_script import is_alive, wait_for
from tests.research_exchange.server.serving import in_thread
from tests.servers import SpindleServer

SPEC = {
    "title": "A spec for the runner's tests",
    "command": "python train.py",
    "arms": [{"name": "trained"}, {"name": "untrained"}],
}

HALF_DONE = """
from research_exchange.client import Run
run = Run.from_env()
run.arm("untrained", accuracy=0.24)
print("half done", flush=True)
"""

Prepare = Callable[..., Sitting]
PLAIN = Means()


@pytest.fixture
def prepare(served: ServedExchange, spindle: SpindleServer, tmp_path: Path) -> Prepare:
    """A session of a script, ready to execute."""

    def _prepare(
        script: str,
        *,
        exchange: Exchange | None = None,
        training: Service | None = None,
        means: Means = PLAIN,
        **changes: float,
    ) -> Sitting:
        exchange = exchange or served.connect()
        folder = tmp_path / "spec"
        folder.mkdir()
        (folder / "train.py").write_text(script)
        run = exchange.create_run(exchange.register(json.dumps(SPEC).encode(), legacy=True))
        work = WorkFolder(tmp_path / "work")
        work.keep(folder)
        launched = Launch(run, Spec.parse(json.dumps(SPEC).encode()), work)
        sitting = launched.sitting(training or Service(spindle.url, spindle.exports), means, threading.Event())
        return replace(sitting, **changes)  # type: ignore[arg-type]  # both changes are numbers of seconds

    return _prepare


def session_of(execution: Sitting) -> SessionFolder:
    """The folder of its newest session."""
    return SessionFolder(execution.work.path / execution.run.record()["sessions"][-1]["id"])


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
    assert not session_of(execution).folder.exists()


CUT_OFF = """
import os
from research_exchange.client import Run
os.environ["RX_URL"] = "http://127.0.0.1:9"
run = Run.from_env(report_patience=0)
run.metric(step=1)
run.finish(outcome_reason="insufficient_evidence", summary="Nobody heard it.")
"""


def test_what_a_script_could_not_send_is_sent_before_its_session_ends(prepare: Prepare) -> None:
    """It is killed while it waits for an Exchange that it does not reach."""
    execution = prepare(CUT_OFF, wall_seconds=4.0)
    assert execution.execute().exit_code is None
    record = execution.run.record()
    assert record["state"]["metrics"]["step"]["value"] == 1
    assert record["state"]["summary"] == "Nobody heard it."
    assert record["state"]["status"] == "succeeded"
    assert {update["session"] for update in record["updates"]} == {record["sessions"][0]["id"]}


LEAVES_AN_ARM = """
import os, signal
from research_exchange.client import Run
Run.from_env().metric(step=1)
os.environ["RX_URL"] = "http://127.0.0.1:9"
Run.from_env(report_patience=0).arm("trained", accuracy=0.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_r240_the_session_of_a_full_run_ends_although_nobody_can_say_anything_more(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(updating, "MAX_UPDATES", 1)
    with in_thread(create_app(tmp_path / "data")) as url:
        own = Exchange(url, (tmp_path / "data" / "admin-token").read_text().strip())
        execution = prepare(LEAVES_AN_ARM, exchange=own)
        execution.execute()
        record = execution.run.record()
        assert record["sessions"][0]["reason"].startswith("The script ended with exit code 137")
        assert [file["kind"] for file in record["evidence"]] == ["log"]
    assert "A report that had waited for the Exchange is not on record: R-240" in caplog.text


def test_a_script_runs_in_a_copy_with_named_variables_only(
    prepare: Prepare, spindle: SpindleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "not for scripts")
    execution = prepare("import os, json; print(json.dumps([os.getcwd(), *sorted(os.environ)]))\n")
    where, *names = json.loads(execution.execute().log.read_text())
    assert Path(where) == session_of(execution).folder
    assert {"RX_RUN_TOKEN", "RX_WORK", "RX_CODE_REVISION", *spindle.exports} <= set(names)
    assert not {"MY_SECRET", "RX_RESUME"} & set(names)


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
    assert session_of(execution).folder.exists(), "kept, to be looked at"


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
    assert not is_alive(int((session_of(execution).folder / "child").read_text()))
    assert ended.reason in execution.run.record()["recorded"]["explanation"]


def test_a_training_service_that_falls_silent_ends_the_run(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address stops answering, as after kill -9 or a cut cable; the script itself would wait for ever."""
    monkeypatch.setattr(health, "HEALTH_SECONDS", 0.2)
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
    monkeypatch.setattr(health, "HEALTH_SECONDS", 0.2)
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
        if "half done" in session_of(execution).log.read_text():
            child.stop()

    ended = execution.execute(kill_when_half_done)
    assert ended.reason == "The training service was ended by SIGTERM during the run, so the script was stopped."
    assert list(execution.run.record()["state"]["completed_arms"]) == ["untrained"]


def test_stopping_the_runner_ends_the_script_and_closes_the_session(prepare: Prepare) -> None:
    execution = prepare("import os, time; open('pid', 'w').write(f'{os.getpid()}\\n'); time.sleep(300)\n")
    seen: list[int] = []

    def interrupt() -> None:
        seen.append(int(wait_for(session_of(execution).folder / "pid")))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execution.execute(interrupt)
    assert not is_alive(seen[0])
    [session] = execution.run.record()["sessions"]
    assert session["reason"] == "The runner was stopped before the script ended."


def test_an_agent_that_goes_on_and_on_after_its_final_update_is_ended(
    prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(sitting, "LINGER_SECONDS", 1.0)
    lingering = HALF_DONE + 'run.finish(summary="It is done.")\nimport time; time.sleep(300)\n'
    execution = prepare(lingering)
    ended = replace(execution, errand=replace(execution.errand, who="agent", ends_with_run=True)).execute()
    assert ended.reason == "The agent was stopped: it still ran long after its final update."
    assert execution.run.record()["state"]["status"] == "succeeded"


def test_somebody_else_may_ask_a_sitting_to_stop(prepare: Prepare) -> None:
    execution = prepare("import time; time.sleep(300)\n")
    ended = execution.execute(execution.stop.set)
    assert ended.reason == "The runner was stopped before the script ended."


def test_r169_a_log_with_a_credential_is_retained_without_it(prepare: Prepare) -> None:
    secret = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3h"
    script = f"import os; print('token', '{secret[:10]}' + '{secret[10:]}'); print(os.environ['RX_RUN_TOKEN'])\n"
    execution = prepare(
        script + "print(os.environ['MY_PASSWORD'])\n", means=Means(passed={"MY_PASSWORD": "plain words"})
    )
    assert execution.execute().exit_code == 0
    assert log_of(execution.run) == "token [redacted]\n[redacted]\n[redacted]\n"
    assert execution.run.record()["refused"] == []


def test_r163_a_run_without_room_for_a_log_says_so(prepare: Prepare) -> None:
    fill = "from research_exchange.client import Run\nrun = Run.from_env()\n"
    fill += "for n in range(64): run.evidence(f'{n}.txt', 'other', str(n))\n"
    execution = prepare(fill)
    assert execution.execute().exit_code == 0
    assert execution.run.record()["state"]["summary"].startswith("The log was not retained: the run's other files")


def test_a_later_session_finds_what_an_earlier_one_kept_and_no_more(prepare: Prepare) -> None:
    """R-200: and it has the wall time that the earlier one left."""
    script = "import json, os, pathlib\n"
    script += "kept = pathlib.Path(os.environ['RX_WORK'], 'steps')\n"
    script += "print(json.dumps([os.environ.get('RX_RESUME'), kept.exists(), os.path.exists('litter')]))\n"
    script += "kept.write_text('1'); open('litter', 'w')\n"
    first = prepare(script)
    assert json.loads(first.execute().log.read_text()) == [None, False, False]
    assert json.loads(first.execute().log.read_text()) == ["1", True, False]
    took = first.run.record()["sessions"]
    assert len(took) == 2
    assert seconds_left(Spec.parse(json.dumps(SPEC).encode()), took) < 3600


def test_r200_wall_time_is_what_the_sessions_leave_of_it() -> None:
    spec = Spec.parse(json.dumps({"title": "T", "budget": {"max_wall_minutes": 10}}).encode())
    sessions: list[dict[str, str | None]] = [
        {"started_at": "2026-11-30T10:00:00.000Z", "ended_at": "2026-11-30T10:04:00.000Z"},
        {"started_at": "2026-11-30T12:00:00.000Z", "ended_at": None, "last_seen": "2026-11-30T12:03:00.000Z"},
        {"started_at": "2026-11-30T13:00:00.000Z", "ended_at": None},
        {"started_at": "2026-11-30T14:00:00.000Z", "ended_at": "2026-11-30T13:00:00.000Z"},
    ]
    assert seconds_left(spec, sessions) == 180
    with pytest.raises(NoTimeLeft, match=r"used up its wall time of 10 minutes"):
        seconds_left(spec, sessions[:2] * 2)


def test_a_long_log_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    """R-163"""
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(20_000)))
    kept = evidence_bytes(log, 20_000, []).decode()
    assert len(kept) <= 20_000
    assert kept.startswith("line 0\n")
    assert kept.endswith("line 19999\n")
    [left_out] = [line for line in kept.splitlines() if not line.startswith("line")]
    assert left_out.startswith("[... 1")
    log.write_bytes(b"x" * 50_000)
    assert evidence_bytes(log, 20_000, []) == b"\n[... 50,000 bytes are left out here ...]\n", "no half of a credential"
    assert evidence_bytes(tmp_path / "none", 20_000, []) == b""
