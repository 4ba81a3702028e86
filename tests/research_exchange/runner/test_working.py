"""Runs in parallel, in a queue, cancelled, resumed and repeated: `rx` against a real Exchange."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

import pytest

from research_exchange.client import Exchange
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.runner.running import RX, Rx, environment_of
from tests.research_exchange.runner.specs import spec_folder
from tests.research_exchange.runner.test_script import is_alive, wait_for, wait_until_gone
from tests.servers import SpindleServer

FINISHES = """
from research_exchange.client import Run
run = Run.from_env()
run.arm("only", accuracy=0.5)
run.finish(outcome_reason="insufficient_evidence", deviations=[], original_hypothesis_tested=True, summary="Done.")
"""

MEETS = """
import pathlib, sys, time
mine, other = sys.argv[1:]
pathlib.Path(mine).touch()
began = time.monotonic()
while not pathlib.Path(other).exists():
    assert time.monotonic() < began + 60, "the other never started"
    time.sleep(0.05)
"""

NO_MACHINE = """
import os
from research_exchange.client import Run
run = Run.from_env()
if "RX_RESUME" in os.environ:
    run.arm("only", accuracy=0.5)
    run.finish(outcome_reason="insufficient_evidence", deviations=[], original_hypothesis_tested=True, summary="Now.")
else:
    run.finish(
        status="failed", outcome_reason="incomplete_execution", deviations=[], original_hypothesis_tested=True,
        summary="No machine.",
        capacity_block={"error": "429", "comparison_steps_completed": 0, "released_clients": True},
    )
"""

SLEEPS = """
import os, pathlib, subprocess, time
from research_exchange.client import Run
run = Run.from_env()
kept = pathlib.Path(os.environ["RX_WORK"], "pids")
if os.environ.get("RX_RESUME"):
    run.arm("only", accuracy=0.5)
    run.finish(
        outcome_reason="insufficient_evidence", deviations=[], original_hypothesis_tested=True,
        summary=f"Went on from {kept.read_text().split()[0]}.",
    )
    raise SystemExit
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
kept.write_text(f"step-7 {os.getpid()} {child.pid}\\n")
time.sleep(300)
"""

Started = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def exchange(served: ServedExchange) -> Exchange:
    return served.connect()


def newest(exchange: Exchange) -> dict[str, Any]:
    return exchange.run(exchange.runs(limit=1)[0]["id"]).record()


def started(spindle: SpindleServer, *arguments: str, **changes: str) -> "subprocess.Popen[str]":
    environment = {**environment_of(spindle), **changes}
    return subprocess.Popen(
        [*RX, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def pids_of(data: Path, known: Set[str] = frozenset()) -> tuple[str, list[int]]:
    """The run that has written its processes into its RX_WORK, and those."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        for kept in data.glob("work/*/state/pids"):
            run_id = kept.parents[1].name
            if run_id not in known and (said := wait_for(kept).split()):
                return run_id, [int(pid) for pid in said[1:]]
        time.sleep(0.1)
    raise AssertionError("no run has started")


def test_two_specs_run_at_the_same_time(rx: Rx, served: ServedExchange, exchange: Exchange, tmp_path: Path) -> None:
    """Each waits for the other, so one after the other would never end."""
    a, b = str(tmp_path / "a.started"), str(tmp_path / "b.started")
    specs = [
        spec_folder(
            tmp_path / name, MEETS + FINISHES, title=f"The run {name}", command=f"python train.py {mine} {other}"
        )
        for name, mine, other in (("a", a, b), ("b", b, a))
    ]
    ran = rx("run", *map(str, specs), "--parallel", "2", "--data", str(served.data))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for name in "ab":
        assert f"Running The run {name} as run_" in ran.stdout
    lines = [line for line in ran.stdout.splitlines() if line.endswith("  Done.")]
    assert len({line.partition("  ")[0] for line in lines}) == 2, "each line says whose it is"


def test_a_folder_that_is_too_large_leaves_no_run_behind(
    rx: Rx, served: ServedExchange, exchange: Exchange, tmp_path: Path
) -> None:
    spec = spec_folder(tmp_path / "spec", FINISHES, title="Beside a large file")
    with (spec.parent / "weights.bin").open("wb") as weights:
        weights.truncate(101 * 2**20)
    before = exchange.runs_page()["total"]
    refused = rx("run", str(spec), "--queue", "--data", str(served.data))
    assert refused.returncode == 2
    assert "give the spec a folder of its own" in refused.stderr
    assert exchange.runs_page()["total"] == before


def test_a_file_that_cannot_be_read_leaves_no_run_behind(
    rx: Rx, served: ServedExchange, exchange: Exchange, tmp_path: Path
) -> None:
    spec = spec_folder(tmp_path / "spec", FINISHES, title="Beside a file that nobody can read")
    (spec.parent / "memory").symlink_to("/proc/self/mem")  # not even the administrator of the machine
    before = exchange.runs_page()["total"]
    refused = rx("run", str(spec), "--queue", "--data", str(served.data))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"{spec.parent}/memory cannot be copied for the run" in refused.stderr
    assert exchange.runs_page()["total"] == before
    assert not list((served.data / "work").glob(".new-*"))


def test_what_is_queued_waits_with_a_reason_and_a_worker_takes_it(
    rx: Rx, served: ServedExchange, exchange: Exchange, tmp_path: Path
) -> None:
    specs = [spec_folder(tmp_path / name, FINISHES, title=f"Queued {name}") for name in "ab"]
    data = ("--data", str(served.data))
    queued = rx("run", *map(str, specs), "--queue", *data, "--json")
    ids = [each["run"] for each in json.loads(queued.stdout)]
    waiting = json.loads(rx("queue", *data, "--json").stdout)["queue"]
    assert [each["run"] for each in waiting] == ids
    assert all(each["waits"] for each in waiting)
    assert "why it waits" in rx("queue", *data).stdout
    worked = rx("work", "--slots", "2", "--once", *data)
    assert worked.returncode == 0, worked.stderr
    for run_id in ids:
        assert f"{run_id}: The script ended by itself." in worked.stdout
        assert exchange.run(run_id).record()["state"]["status"] == "succeeded"
    assert rx("queue", *data).stdout.strip() == "Nothing waits."


def test_r202_a_run_that_got_no_machine_waits_and_then_goes_on_as_the_same_run(
    rx: Rx, served: ServedExchange, exchange: Exchange, tmp_path: Path
) -> None:
    spec = spec_folder(tmp_path / "spec", NO_MACHINE, budget={"gpu_hours": 0.1, "max_wall_minutes": 60})
    data = ("--data", str(served.data))
    ran = rx("run", str(spec), *data)
    assert ran.returncode == 1
    assert "It waits for another session from " in ran.stdout
    stopped = newest(exchange)
    assert stopped["recorded"]["capacity"]["requeue"] == "eligible"
    assert [each["run"] for each in exchange.queue()["queue"]] == [stopped["id"]]
    assert rx("work", "--once", *data).stdout.count(stopped["id"]) == 0, "its time has not come"
    exchange.requeue(stopped["id"], "there is room now")
    assert f"{stopped['id']}: The script ended by itself." in rx("work", "--once", *data).stdout
    record = exchange.run(stopped["id"]).record()
    assert [session["runner"] for session in record["sessions"]] == ["local", "local"]
    assert (record["state"]["status"], record["state"]["summary"]) == ("succeeded", "Now.")
    assert record["recorded"]["basis"] == "reported"


def test_a_worker_that_is_asked_to_stop_leaves_its_run_in_good_order(
    rx: Rx, spindle: SpindleServer, served: ServedExchange, exchange: Exchange, tmp_path: Path
) -> None:
    data = ("--data", str(served.data))
    known = {path.name for path in (served.data / "work").glob("*")}
    queued = rx("run", str(spec_folder(tmp_path / "spec", SLEEPS, title="For a worker")), "--queue", *data)
    assert "waits for a worker" in queued.stdout
    process = started(spindle, "work", *data)
    run_id, pids = pids_of(served.data, known)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert not any(map(is_alive, pids))
    [session] = exchange.run(run_id).record()["sessions"]
    assert session["reason"] == "The runner was stopped before the script ended."


def test_a_cancelled_run_is_stopped_with_what_it_started(
    rx: Rx, spindle: SpindleServer, served: ServedExchange, exchange: Exchange, tmp_path: Path
) -> None:
    spec = spec_folder(tmp_path / "spec", SLEEPS, title="To be cancelled")
    known = {path.name for path in (served.data / "work").glob("*")}
    process = started(spindle, "run", str(spec), "--data", str(served.data))
    run_id, pids = pids_of(served.data, known)
    cancelled = rx("cancel", run_id, "--reason", "The evaluator was wrong.", "--data", str(served.data))
    assert cancelled.returncode == 0, cancelled.stderr
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 1
    assert "The run was cancelled: The evaluator was wrong." in output
    assert not any(map(is_alive, pids))
    recorded = exchange.run(run_id).record()["recorded"]
    assert recorded["outcome_reason"] == "incomplete_execution"
    refused = rx("resume", run_id, "--data", str(served.data))
    assert refused.returncode == 2
    assert "cancelled" in refused.stderr


def test_kill_9_of_the_runner_leaves_nobody_behind_and_the_run_can_be_resumed(
    rx: Rx, spindle: SpindleServer, tmp_path: Path
) -> None:
    """The Exchange that it started goes too, with every child of the script, also one in a session of its own."""
    spec, data = spec_folder(tmp_path / "spec", SLEEPS), tmp_path / "data"
    process = started(spindle, "run", str(spec), "--data", str(data))
    run_id, pids = pids_of(data)
    server = json.loads((data / "server.json").read_text())
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    for pid in (*pids, server["pid"]):
        wait_until_gone(pid, 40)
    assert not Exchange(server["url"]).answers()
    (spec.parent / "train.py").write_text("raise SystemExit('not what the run was created from')\n")
    resumed = rx("resume", run_id, "--data", str(data), "--json")
    assert resumed.returncode == 0, resumed.stderr
    record = json.loads(resumed.stdout)
    assert record["id"] == run_id
    assert record["state"]["summary"] == "Went on from step-7."
    assert len(record["sessions"]) == 2
    assert all(session["ended_at"] for session in record["sessions"])
    again = rx("resume", run_id, "--data", str(data))
    assert again.returncode == 2
    assert "has posted its final update" in again.stderr


def test_a_repetition_is_linked_to_its_run_and_shows_how_they_agree(
    rx: Rx, served: ServedExchange, exchange: Exchange, tmp_path: Path
) -> None:
    """R-006"""
    spec = spec_folder(tmp_path / "spec", FINISHES, title="To be repeated")
    data = ("--data", str(served.data))
    first = json.loads(rx("run", str(spec), "--redo", "auto", *data, "--json").stdout)
    assert (first["launch_mode"], first["redo_of"]) == ("ordinary", None)
    second = rx("run", str(spec), "--redo", "auto", *data)
    assert f"It repeats {first['id']}" in second.stdout
    repetition = newest(exchange)
    assert (repetition["launch_mode"], repetition["redo_of"]) == ("redo", first["id"])
    (spec.parent / "train.py").unlink()
    third = json.loads(rx("redo", first["id"], *data, "--json").stdout)
    assert (third["launch_mode"], third["redo_of"]) == ("redo", first["id"])
    assert third["agreement"]["second"]["run"] == third["id"]


def test_a_repetition_that_cannot_begin_leaves_no_run_behind(
    rx: Rx, served: ServedExchange, exchange: Exchange, tmp_path: Path
) -> None:
    spec = spec_folder(tmp_path / "spec", FINISHES, title="To be repeated in vain")
    data = ("--data", str(served.data))
    first = json.loads(rx("run", str(spec), *data, "--json").stdout)["id"]
    source = served.data / "work" / first / "source"
    before = exchange.runs_page()["total"]
    alone = rx("redo", first, *data, TINKER_BASE_URL="http://127.0.0.1:9")
    (source / "memory").symlink_to("/proc/self/mem")  # not even the administrator of the machine reads it
    unreadable = rx("redo", first, *data)
    shutil.rmtree(source)
    gone = rx("redo", first, *data)
    for refused, code, sentence in (
        (alone, 3, "No training service answers"),
        (unreadable, 2, f"{source}/memory cannot be copied for the run"),
        (gone, 2, f"The folder of {first} is not on this machine"),
    ):
        assert (refused.returncode, refused.stderr.count("\n")) == (code, 1), refused.stderr
        assert sentence in refused.stderr
    assert exchange.runs_page()["total"] == before
    assert not list((served.data / "work").glob(".new-*"))
