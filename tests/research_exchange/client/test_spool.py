"""A script that loses its Exchange loses no update: what it reports waits on the disk and arrives once, in order."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from research_exchange.client import ExchangeRefused, ExchangeUnreachable, Run
from research_exchange.client.connection import Connection
from research_exchange.client.spool import Report, Spool, SpoolProblem
from tests.research_exchange.client.serving import ServedExchange, free_port, served_exchange
from tests.research_exchange.client.specs import SPEC


def steps(run: Run) -> list[float]:
    """Every step on record, in order."""
    metrics = run.record()["state"]["metrics"]
    return [entry["value"] for entry in metrics["step"]["history"]] if metrics else []


def leave(spool: Spool, run: Run, count: int) -> None:
    for step in range(count):
        spool.add(Report(run.id, json.dumps({"status": "running", "metrics": {"step": step}}).encode()))


def environment(url: str, run: Run, **further: object) -> dict[str, str]:
    named = {"RX_URL": url, "RX_RUN_ID": run.id, "RX_RUN_TOKEN": run.token or ""}
    return {**os.environ, **named, **{name: str(value) for name, value in further.items()}}


def test_a_script_goes_on_while_its_exchange_is_away_and_a_gate_waits_for_it(tmp_path: Path) -> None:
    """kill -9 of the Exchange, reports, and a restart: everything arrives once, in order, before a gate is read."""
    with served_exchange(tmp_path) as served:
        exchange = served.connect()
        created = exchange.create_run(exchange.register(json.dumps(SPEC).encode()))
        run = Run(served.url, created.id, created.token, spool=tmp_path / "spool", patience=60, report_patience=0.5)
        assert run.metric(step=0) == 1
        served.kill()
        began = time.monotonic()
        assert run.metric(step=1) is None
        for step in range(2, 20):
            assert run.metric(step=step) is None
        kept = run.evidence("notes.txt", "other", "written while it was away")
        run.update(activation_calibration={"values": {"reward": 0.5}})
        assert time.monotonic() - began < 5, "only the first report waits"

        restart = threading.Timer(2, served.start)
        restart.start()
        reading = run.gate("activation_gate")
        restart.join()
        assert reading.may_go_on, "the calibration was posted before the gate was read"
        assert not Spool(tmp_path / "spool" / run.id).waiting()
        assert steps(run) == list(range(20))
        record = run.record()
        assert [file["sha256"] for file in record["evidence"]] == [kept.sha256]
        assert len(record["updates"]) == 21
        assert run.metric(step=20) == 22, "straight to the Exchange again"


def test_whoever_follows_a_run_hears_everything_once_through_a_restart(tmp_path: Path) -> None:
    """kill -9 of the Exchange in the middle of a stream of events."""
    with served_exchange(tmp_path) as served:
        exchange = served.connect()
        run = exchange.create_run(exchange.register(json.dumps(SPEC).encode()))
        heard: list[int] = []

        def follow() -> None:
            updates = (event for event in exchange.events(run.id) if event.kind == "update")
            heard.extend(event.data["sequence"] for event in islice(updates, 20))

        follower = threading.Thread(target=follow)
        follower.start()
        for step in range(20):
            if step == 10:
                served.kill()
                served.start()
            run.metric(step=step)
        follower.join(60)
        assert heard == list(range(1, 21))


REPORT_AND_DIE = """
import os, signal
from research_exchange.client import Run
run = Run.from_env(report_patience=0)
for step in range(int(os.environ["STEPS"])):
    run.metric(step=step)
    print(step, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
REPORT_AND_GO_ON = """
import os
from research_exchange.client import Run
run = Run.from_env()
first = int(os.environ["STEPS"])
run.metric(step=first)
run.metric(step=first + 1)
"""


def test_what_a_killed_script_said_is_sent_by_the_next_session_of_its_run(
    served: ServedExchange, run: Run, tmp_path: Path
) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    script = [sys.executable, "-c", REPORT_AND_DIE]
    named = environment(away, run, RX_WORK=tmp_path, STEPS=10)
    killed = subprocess.run(script, env=named, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout.split() == [str(step).encode() for step in range(10)]
    assert len(Spool(tmp_path / "spool" / run.id).waiting()) == 10
    assert steps(run) == []

    resumed = [sys.executable, "-c", REPORT_AND_GO_ON]
    subprocess.run(resumed, env=environment(served.url, run, RX_WORK=tmp_path, STEPS=10), check=True, timeout=60)
    assert steps(run) == list(range(12))
    assert len(run.record()["updates"]) == 12


def test_a_script_that_ends_without_its_exchange_says_what_is_left_and_how_to_send_it(run: Run, tmp_path: Path) -> None:
    code = """
from research_exchange.client import Run, outbox
outbox.EXIT_PATIENCE_SECONDS = 0.5
Run.from_env(patience=0.5, report_patience=0).finish(summary="Over.", outcome_reason="incomplete_execution")
"""
    away = f"http://127.0.0.1:{free_port()}"
    script = [sys.executable, "-c", code]
    named = environment(away, run, RX_SPOOL=tmp_path)
    done = subprocess.run(script, env=named, capture_output=True, text=True, check=True)
    assert f"1 reports wait in {tmp_path / run.id}; `rx spool send {tmp_path / run.id}` posts them." in done.stderr
    (left,) = Spool(tmp_path / run.id).waiting()
    assert (run.token or "no token") not in done.stderr + left.read_text()


SEND = """
import sys
from pathlib import Path
from research_exchange.client.connection import Connection
from research_exchange.client.spool import Spool
print("ready", flush=True)
sys.stdin.readline()
Spool(Path(sys.argv[1])).send(Connection(sys.argv[2], sys.argv[3], 30.0))
"""


def test_two_processes_that_send_one_folder_post_nothing_twice(
    served: ServedExchange, run: Run, tmp_path: Path
) -> None:
    spool = Spool(tmp_path)
    leave(spool, run, 30)
    command = [sys.executable, "-c", SEND, str(tmp_path), served.url, run.token or ""]
    senders = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for sender in senders:
        assert sender.stdout is not None
        sender.stdout.readline()
    for sender in senders:
        sender.communicate(b"go\n", timeout=60)
        assert sender.returncode == 0
    assert spool.waiting() == []
    assert steps(run) == list(range(30))
    assert len(run.record()["updates"]) == 30


def test_a_sender_that_is_killed_halfway_leaves_the_rest_and_doubles_nothing(
    served: ServedExchange, run: Run, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / run.id)
    leave(spool, run, 30)
    command = [sys.executable, "-c", SEND, str(spool.folder), served.url, run.token or ""]
    sender = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert sender.stdin is not None
    sender.stdin.write(b"go\n")
    sender.stdin.flush()
    while len(spool.waiting()) > 25:
        assert sender.poll() is None
        time.sleep(0.002)
    sender.kill()
    sender.communicate()
    assert spool.waiting()
    assert run.send_spool(tmp_path) == [], "nothing is refused, also what came twice"
    assert not spool.waiting()
    assert steps(run) == list(range(30))
    assert len(run.record()["updates"]) == 30


def test_a_report_whose_answer_was_lost_is_known_again_after_others(served: ServedExchange, run: Run) -> None:
    report = Report(run.id, b'{"status": "running", "metrics": {"step": 0}}')
    first = report.post(Connection(served.url, run.token))
    run.metric(step=1)
    assert report.post(Connection(served.url, run.token))["sequence"] == first["sequence"]
    assert steps(run) == [0, 1]


def test_what_is_refused_is_set_aside_with_the_reason_and_the_rest_arrives(
    served: ServedExchange, run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run.evidence("run.py", "script", "print(1)")
    spool = Spool(tmp_path / run.id)
    spool.add(Report(run.id, b"print(2)", {"name": "run.py", "kind": "script", "sha256": "0" * 64}))
    leave(spool, run, 3)
    with caplog.at_level(logging.ERROR):
        again = Run(served.url, run.id, run.token, spool=tmp_path)
        assert again.record()["state"]["metrics"]["step"]["value"] == 2
    (kept,) = (tmp_path / run.id / "refused").glob("*.report")
    assert Spool(tmp_path).read(kept).body == b"print(2)"
    assert "refused" in kept.with_suffix(".txt").read_text()
    assert "was refused" in caplog.text


@pytest.mark.parametrize("stranger", ["token", "run"])
def test_without_the_right_token_or_run_everything_stays(
    served: ServedExchange, run: Run, tmp_path: Path, stranger: str
) -> None:
    spool = Spool(tmp_path)
    leave(spool, run if stranger == "token" else Run(served.url, "run_0000000000"), 2)
    token = "rxr_stranger" if stranger == "token" else run.token
    with pytest.raises(ExchangeRefused):
        spool.send(Connection(served.url, token, 5.0))
    assert len(spool.waiting()) == 2


def test_nobody_there_leaves_everything_and_so_does_a_sender_before_us(run: Run, tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    leave(spool, run, 2)
    nowhere = Connection(f"http://127.0.0.1:{free_port()}", run.token, 0.0)
    with pytest.raises(ExchangeUnreachable, match="No Exchange answers"):
        spool.send(nowhere)
    with spool._alone(0), pytest.raises(ExchangeUnreachable, match="Another process is still sending"):
        spool.send(nowhere)
    assert len(spool.waiting()) == 2


def test_a_file_that_no_script_left_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "00000001-x.report").write_bytes(b"\xffnothing")
    with pytest.raises(SpoolProblem, match=r"00000001-x\.report is no report"):
        Spool(tmp_path).send(Connection("http://127.0.0.1:1", None, 0.0))


@pytest.mark.parametrize("is_metrics", [True, False])
@pytest.mark.parametrize("file", [None, {"name": "a\nb.bin", "kind": "other", "sha256": "0" * 64}])
def test_a_report_is_kept_byte_for_byte(file: dict[str, str] | None, is_metrics: bool, tmp_path: Path) -> None:
    report = Report("run_0123456789", bytes(range(256)) + b"\n\n", file, is_metrics=is_metrics)
    spool = Spool(tmp_path)
    spool.add(report)
    assert [spool.read(path) for path in spool.waiting()] == [report]


def test_a_full_disk_makes_a_script_wait_instead(served: ServedExchange, run: Run, tmp_path: Path) -> None:
    """A folder that cannot be written, as a file stands in its place."""
    (tmp_path / run.id).write_text("in the way")
    away = free_port()
    waiting = Run(f"http://127.0.0.1:{away}", run.id, run.token, spool=tmp_path, patience=0.5, report_patience=0)
    with pytest.raises(ExchangeUnreachable):
        waiting.metric(step=1)


def posted(run: Run, name: str) -> list[Any]:
    exchange_path = [update["sequence"] for update in run.record()["updates"]]
    bodies = [json.loads(run._http.send("GET", f"/api/runs/{run.id}/updates/{each}").content) for each in exchange_path]
    return [body[name] for body in bodies if name in body]


def test_r077_deviations_stay_stated_together_and_in_the_end_and_in_a_later_session(run: Run) -> None:
    run.deviation("steps", original=24, effective=12, reason="Half the time.")
    again = Run(run._http.url, run.id, run.token)
    again.deviation("model", original="large", effective="small", reason="There is no large one.")
    again.finish(outcome_reason="incomplete_execution")
    fields = [[deviation["field"] for deviation in stated] for stated in posted(run, "deviations")]
    assert fields == [["steps"], ["steps", "model"], ["steps", "model"]]
    assert posted(run, "deviations")[0][0]["original"] == "24"


def test_r076_a_deviation_after_an_arm_is_posted_and_complained_of(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    run.deviation("steps", original=24, effective=12, reason="Half the time.")
    assert "R-076" not in caplog.text
    run.arm("untrained", accuracy=0.1)
    run.deviation("model", original="large", effective="small", reason="There is no large one.")
    assert "The deviation in model is stated after untrained was completed, so it counts as late" in caplog.text
    assert len(posted(run, "deviations")[-1]) == 2


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"field": "learning_rate"}, r"one of model, objective, .*found 'learning_rate' \(R-075\)"),
        ({"reason": " "}, r"needs reason; nothing was given \(R-075\)"),
        ({"effective": 24}, r"from 24 to the same is none \(R-075\)"),
        ({"field": "objective"}, r"say which in tested_instead \(R-078\)"),
    ],
)
def test_a_deviation_that_says_nothing_never_leaves_the_script(
    run: Run, changed: dict[str, Any], sentence: str
) -> None:
    stated: dict[str, Any] = {"field": "steps", "original": 24, "effective": 12, "reason": "Half the time.", **changed}
    with pytest.raises(ValueError, match=sentence):
        run.deviation(**stated)
    assert run.record()["updates"] == []


def test_r078_another_objective_says_what_is_tested_instead(run: Run) -> None:
    run.deviation("objective", original="ppo", effective="grpo", reason="Asked.", tested_instead="Whether GRPO does.")
    assert posted(run, "original_hypothesis_tested") == [False]
    assert posted(run, "tested_instead") == ["Whether GRPO does."]
