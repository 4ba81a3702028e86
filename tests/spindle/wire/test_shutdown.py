"""SIGTERM: the running command ends and is heard of, the rest fails in words, and nothing is saved half."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.research_exchange.server.serving import NO_TLS

Json = dict[str, Any]


class Server:
    def __init__(self, data: Path, seconds: float, grace: float) -> None:
        command = [sys.executable, "-m", "tests.spindle.wire.slow_server", str(data), str(seconds), str(grace)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        headers = {"X-API-Key": "tml-key-of-ann"}
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.line()}/api/v1", headers=headers, timeout=30, verify=NO_TLS
        )
        session = self.post("create_session", {})["session_id"]
        created = self.post("create_model", {"session_id": session, "model_seq_id": 0, "base_model": "base"})
        self.model = self.end(created)["model_id"]

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def post(self, route: str, body: Json) -> Json:
        answer: Json = self.http.post(f"/{route}", json=body).json()
        return answer

    def command(self, route: str, seq_id: int, **fields: Any) -> Json:
        return self.post(route, {"model_id": self.model, "seq_id": seq_id} | fields)

    def end(self, promise: Json) -> Json:
        return self.post("retrieve_future", {"request_id": promise["request_id"]})

    def running(self, route: str, seq_id: int, **fields: Any) -> Json:
        promise = self.command(route, seq_id, **fields)
        assert self.line() == "computing"
        return promise

    def signalled(self, times: int = 1) -> None:
        for _ in range(times):
            self.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)


@contextmanager
def serving(data: Path, seconds: float, grace: float) -> Iterator[Server]:
    server = Server(data, seconds, grace)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        server.http.close()
        assert server.process.stdout is not None
        server.process.stdout.close()


def test_the_running_command_ends_and_what_is_queued_fails_in_words(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=1.0, grace=30.0) as server:
        running = server.running("optim_step", 1, adam_params={"learning_rate": 0.5})
        queued = server.command("optim_step", 2, adam_params={})
        heard: list[Json] = []
        polls = [threading.Thread(target=lambda p=p: heard.append(server.end(p))) for p in (running, queued)]
        for poll in polls:
            poll.start()
        server.signalled()
        late = server.command("optim_step", 3, adam_params={})
        assert "shutting down" in server.end(late)["error"]
        for poll in polls:
            poll.join()
        assert {"metrics": {"learning_rate": 0.5}} in heard
        (failed,) = [answer["error"] for answer in heard if "error" in answer]
        assert failed == "Spindle is shutting down; continue from the last checkpoint when it is back."
        assert server.process.wait(10) == 0


def test_a_save_that_runs_is_whole(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=0.5, grace=30.0) as server:
        server.running("save_weights", 1, path="a")
        server.signalled()
        assert server.process.wait(10) == 0
        run = tmp_path / "runs" / server.model.replace(":", "_")
        assert (run / "weights" / "a.json").is_file()
        (directory,) = (run / "weights").glob("a.*[0-9a-f]")
        assert (directory / "state").read_text() == server.model


def test_a_command_that_outlasts_the_grace_is_left(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=60.0, grace=0.5) as server:
        server.running("optim_step", 1, adam_params={})
        begun = time.monotonic()
        server.signalled()
        assert server.process.wait(20) == 3
        assert time.monotonic() - begun < 15


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, seconds=60.0, grace=60.0) as server:
        server.running("save_weights", 1, path="a")
        begun = time.monotonic()
        server.signalled(times=2)
        assert server.process.wait(10) == 1
        assert time.monotonic() - begun < 5
        assert not list(tmp_path.glob("runs/*/weights/*.json"))
