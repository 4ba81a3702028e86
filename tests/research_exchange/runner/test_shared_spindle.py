"""One Spindle for several runners, each a process of its own: who starts it, who goes on with it, and when it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import httpx
import pytest

from research_exchange.runner import ServiceError, training_service
from spindle.backends import models
from spindle_whereabouts import SERVER_FILE, Announcement
from tests.research_exchange.client.serving import ServedExchange
from tests.research_exchange.runner.running import RX
from tests.research_exchange.runner.specs import spec_folder
from tests.research_exchange.runner.test_script import is_alive, wait_until_gone
from tests.servers import SpindleServer

PATIENCE_SECONDS = 120
"""On a machine that does other things as well."""

USES = """
import sys
from pathlib import Path
from research_exchange.runner import training_service

with training_service(Path(sys.argv[1]), say=lambda line: print(line, flush=True)) as service:
    print("ready", service.url, service.child.pid if service.child else 0, flush=True)
    sys.stdin.readline()
"""

TRAINS = """
import pathlib, sys, time
import tinker
from research_exchange.client import Run

name, base_model, last = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
learner = tinker.ServiceClient().create_lora_training_client(base_model, rank=4)
datum = tinker.Datum(
    model_input=tinker.ModelInput.from_ints([1, 2, 3]),
    loss_fn_inputs={"target_tokens": [2, 3, 4], "weights": [1.0, 1.0, 1.0]},
)
steps = pathlib.Path(f"{last}.steps-of-{name}")
while not last.exists():
    learner.forward_backward([datum], "cross_entropy").result()
    learner.optim_step(tinker.AdamParams(learning_rate=1e-3)).result()
    with steps.open("a") as file:
        file.write("step\\n")
    time.sleep(0.1)
run = Run.from_env()
run.arm("only", accuracy=0.5)
run.finish(outcome_reason="insufficient_evidence", deviations=[], original_hypothesis_tested=True, summary="Done.")
"""


@dataclass
class User:
    """A process that uses the training service until it is told to end."""

    process: "subprocess.Popen[str]"
    said: list[str] = field(default_factory=list)
    url: str = ""
    started: int = 0
    """The process of the Spindle, when this user started it."""

    def wait_until_ready(self) -> "User":
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready "):
                self.url, self.started = line.split()[1], int(line.split()[2])
                return self
            self.said.append(line.strip())
        raise AssertionError(f"it ended with {self.process.wait()}: {self.said}")

    def end(self) -> None:
        """As after the last run."""
        self.process.communicate("\n", timeout=60)
        assert self.process.returncode == 0

    def kill(self, number: signal.Signals) -> None:
        """With everything in its terminal."""
        os.killpg(self.process.pid, number)
        self.process.wait(60)


Uses = Callable[[], User]


@pytest.fixture
def folder(spindle: SpindleServer, tmp_path: Path) -> Path:
    """The data folder of a Spindle that serves the tiny model when no other is named."""
    data = tmp_path / "spindle"
    models.add(models.full_name(models.DEFAULT_MODEL), spindle.model, models.cache_directory(data))
    return data


@pytest.fixture
def environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("RX_", "TINKER_", "HF_"))}
    return {**own, "SPINDLE_DATA": str(folder), "OMP_NUM_THREADS": "1", "TINKER_TELEMETRY": "0", "COLUMNS": "120"}


@pytest.fixture
def uses(tmp_path: Path, environment: dict[str, str]) -> Iterator[Uses]:
    """Starts users, each in a terminal of its own; nobody is left at the end."""
    with ExitStack() as ends:

        def _uses() -> User:
            process = subprocess.Popen(
                [sys.executable, "-c", USES, str(tmp_path / "data")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
                start_new_session=True,
            )
            ends.enter_context(process)
            ends.callback(process.kill)
            return User(process)

        yield _uses


def content(path: Path) -> str:
    """Of a file that somebody is about to write."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)
    return path.read_text()


def answers(url: str) -> bool:
    return httpx.get(f"{url}/api/v1/healthz").status_code == 200


RxRun = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def rx_run(served: ServedExchange, environment: dict[str, str], tmp_path: Path) -> Iterator[RxRun]:
    """`rx run`, in a terminal of its own, of a script that trains until `<name>.last` is there."""
    with ExitStack() as ends:

        def _rx_run(name: str) -> "subprocess.Popen[str]":
            arguments = f"{name} {models.full_name(models.DEFAULT_MODEL)} {tmp_path / f'{name}.last'}"
            spec = spec_folder(tmp_path / name, TRAINS, title=f"Run {name}", command=f"python train.py {arguments}")
            process = subprocess.Popen(
                [*RX, "run", str(spec), "--data", str(served.data)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                start_new_session=True,
            )
            ends.enter_context(process)
            ends.callback(process.kill)
            return process

        yield _rx_run


def test_two_runs_share_a_spindle_that_outlives_the_one_that_started_it(
    rx_run: RxRun, folder: Path, tmp_path: Path
) -> None:
    def steps_of(name: str) -> int:
        return len(content(tmp_path / f"{name}.last.steps-of-{name}").splitlines())

    def ended(name: str, process: "subprocess.Popen[str]") -> str:
        (tmp_path / f"{name}.last").touch()
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, said
        return said

    first = rx_run("first")
    steps_of("first")
    announced = Announcement.read(folder)
    assert announced is not None
    second = rx_run("second")
    steps_of("second")
    assert "Starting Spindle, the training service." in ended("first", first)
    before, deadline = steps_of("second"), time.monotonic() + PATIENCE_SECONDS
    while steps_of("second") < before + 5:
        assert time.monotonic() < deadline, "the second run lost its service"
        time.sleep(0.1)
    said = ended("second", second)
    assert f"Using the Spindle that is at work at {announced.url}." in said
    assert "Starting Spindle" not in said
    assert "tml-" not in said
    wait_until_gone(announced.pid)
    assert not (folder / SERVER_FILE).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_whatever_ends_the_one_that_started_it_the_others_keep_it_and_the_last_ends_it(
    uses: Uses, number: signal.Signals
) -> None:
    owner = uses().wait_until_ready()
    other = uses().wait_until_ready()
    assert owner.said == ["Starting Spindle, the training service."]
    assert other.said == [f"Using the Spindle that is at work at {owner.url}."]
    assert (other.url, other.started) == (owner.url, 0)
    owner.kill(number)
    time.sleep(1.5)  # several of its looks at who uses it
    assert answers(other.url)
    assert is_alive(owner.started)
    third = uses().wait_until_ready()
    assert third.url == owner.url
    other.kill(number)
    third.kill(number)
    wait_until_gone(owner.started)


def test_those_that_start_at_the_same_moment_share_one(uses: Uses) -> None:
    both = [uses(), uses()]
    for user in both:
        user.wait_until_ready()
    assert both[0].url == both[1].url
    [started] = [user.started for user in both if user.started]
    for user in both:
        user.end()
    wait_until_gone(started)


def test_killed_while_it_starts_one_leaves_nothing_behind(uses: Uses, folder: Path) -> None:
    killed = uses()
    pid = json.loads(content(folder / SERVER_FILE))["pid"]
    killed.kill(signal.SIGKILL)
    wait_until_gone(pid)
    successor = uses().wait_until_ready()
    assert successor.started not in (0, pid)
    successor.end()


def test_who_comes_while_it_stops_gets_another_and_leaves_nothing_behind(uses: Uses) -> None:
    last = uses().wait_until_ready()
    last.kill(signal.SIGKILL)
    time.sleep(0.4)  # its look at who uses it is over, its stop is not
    successor = uses().wait_until_ready()
    assert successor.started not in (0, last.started)
    assert answers(successor.url)
    successor.end()
    assert not is_alive(successor.started), "the last one that also started it waits for its end"


class _Thief(BaseHTTPRequestHandler):
    """Says of itself that it is a healthy Spindle, and remembers what it is sent."""

    heard: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.heard.append(f"{self.path}\n{self.headers}")
        body = json.dumps({"status": "ok", "proof": "0" * 64}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Not on the terminal."""


def test_whoever_took_the_port_of_a_killed_spindle_is_sent_no_key(uses: Uses, folder: Path) -> None:
    owner = uses().wait_until_ready()
    announced = Announcement.read(folder)
    assert announced is not None
    assert owner.started == announced.pid
    os.kill(announced.pid, signal.SIGKILL)
    owner.end()
    assert Announcement.read(folder) == announced, "it had no chance to take it back"
    with ThreadingHTTPServer(("127.0.0.1", int(owner.url.rpartition(":")[2])), _Thief) as thief:
        Thread(target=thief.serve_forever).start()
        try:
            successor = uses().wait_until_ready()
            assert successor.started
            assert successor.url != owner.url
            successor.end()
        finally:
            thief.shutdown()
    assert _Thief.heard
    assert not [
        sent for sent in _Thief.heard if announced.exports["TINKER_API_KEY"] in sent or announced.secret in sent
    ]
    assert all(sent.startswith("/api/v1/identity?challenge=") for sent in _Thief.heard)


def test_a_spindle_that_a_person_started_is_used_and_goes_on(spindle: SpindleServer, tmp_path: Path) -> None:
    said: list[str] = []
    with training_service(tmp_path, {"SPINDLE_DATA": str(spindle.data)}, say=said.append) as service:
        assert (service.url, service.child) == (spindle.url, None)
        assert dict(service.variables) == spindle.exports
        assert spindle.key not in repr(service)
    assert said == [f"Using the Spindle that is at work at {spindle.url}."]
    time.sleep(1)
    assert answers(spindle.url)


def test_one_that_does_not_say_where_it_is_is_not_waited_for_long(spindle: SpindleServer, tmp_path: Path) -> None:
    announcement = spindle.data / SERVER_FILE
    kept = announcement.read_bytes()
    announcement.unlink()
    try:
        with pytest.raises(ServiceError, match=r"^Another Spindle is at work here, and nothing .* SPINDLE_DATA\.$"):
            training_service(tmp_path, {"SPINDLE_DATA": str(spindle.data)}).__enter__()
    finally:
        announcement.write_bytes(kept)


def test_one_whose_owners_have_keys_of_their_own_asks_for_yours(spindle: SpindleServer, tmp_path: Path) -> None:
    announcement = spindle.data / SERVER_FILE
    kept = announcement.read_bytes()
    without = json.loads(kept)
    del without["exports"]["TINKER_API_KEY"]
    announcement.write_text(json.dumps(without))
    try:
        with pytest.raises(ServiceError, match=rf"export TINKER_BASE_URL={spindle.url} and your TINKER_API_KEY, or"):
            training_service(tmp_path, {"SPINDLE_DATA": str(spindle.data)}).__enter__()
    finally:
        announcement.write_bytes(kept)


def test_a_data_folder_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServiceError, match=r"cannot be used: .* SPINDLE_DATA\.$"):
        training_service(tmp_path, {"SPINDLE_DATA": str(tmp_path / "file")}).__enter__()


def test_a_spindle_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINDLE_API_KEY", "hunter2-hunter2")
    with pytest.raises(ServiceError, match=r"did not start\. The end of .*\n.*SPINDLE_API_KEY must start with tml-"):
        training_service(tmp_path, {"SPINDLE_DATA": str(tmp_path / "spindle")}).__enter__()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pid": 1}', '{"pid": 1, "secret": "x", "exports": []}', '{"pid": null}', "\xff"]
)
def test_a_damaged_announcement_leads_nowhere(tmp_path: Path, content: str) -> None:
    (tmp_path / SERVER_FILE).write_text(content, encoding="latin-1")
    assert Announcement.read(tmp_path) is None


def test_somebody_elses_announcement_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / SERVER_FILE).write_text(Announcement(1, "secret", {"TINKER_BASE_URL": "http://here"}).to_json())
    assert Announcement.read(tmp_path) is not None
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert Announcement.read(tmp_path) is None
