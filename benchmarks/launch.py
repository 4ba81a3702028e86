"""The time from launch to the end of the first training step."""

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import httpx

from benchmarks.comparison import Comparison
from benchmarks.machine import Machine
from spindle.backends.models import InstalledModel


def run(model: InstalledModel, _: Machine) -> list[Comparison]:
    """From the start of `spindle serve` to the end of a first training step, against importing and loading alone."""
    theirs = _seconds(lambda: _bare(model))
    mine = _seconds(lambda: _first_step(model))
    return [Comparison("launch to first training step", "import and load", mine, theirs, "s", target=2.0)]


_BARE = """
import sys, torch
from transformers import LlamaForCausalLM
LlamaForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
"""


def _bare(model: InstalledModel) -> None:
    subprocess.run([sys.executable, "-c", _BARE, str(model.path)], check=True, stderr=subprocess.DEVNULL)


def _seconds(do: Callable[[], None]) -> float:
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun


def _first_step(model: InstalledModel) -> None:
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "spindle.cli", "serve", "--port", "0", "--data", data]
        command += ["--model", f"{model.name}={model.path}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            try:
                _train_once(_exports(server), model.name)
            finally:
                server.terminate()


def _exports(server: "subprocess.Popen[str]") -> dict[str, str]:
    """The environment that `spindle serve` prints for its clients."""
    exports: dict[str, str] = {}
    assert server.stdout is not None
    while "HF_HUB_CACHE" not in exports:
        name, _, value = shlex.split(server.stdout.readline())[1].partition("=")
        exports[name] = value
    return exports


def _train_once(exports: dict[str, str], name: str) -> None:
    """Over plain HTTP, so that the client's own import is not part of it."""
    url, headers = exports["TINKER_BASE_URL"] + "/api/v1", {"X-API-Key": exports["TINKER_API_KEY"]}
    with httpx.Client(base_url=url, headers=headers, timeout=120) as client:

        def post(path: str, body: Any) -> Any:
            return client.post(path, json=body).raise_for_status().json()

        def done(promise: Any) -> None:
            while client.post("/retrieve_future", json=promise).status_code == 408:
                pass

        session = post("/create_session", {"tags": [], "sdk_version": "0.38.0"})["session_id"]
        created = post("/create_model", {"session_id": session, "model_seq_id": 0, "base_model": name})
        done(created)
        tokens = {"chunks": [{"type": "encoded_text", "tokens": list(range(20, 84))}]}
        inputs = {
            "target_tokens": {"data": list(range(21, 85)), "dtype": "int64"},
            "weights": {"data": [1.0] * 64, "dtype": "float32"},
        }
        datum = {"model_input": tokens, "loss_fn_inputs": inputs}
        address = {"model_id": created["model_id"]}
        forward = {"data": [datum], "loss_fn": "cross_entropy"}
        done(post("/forward_backward", address | {"seq_id": 1, "forward_backward_input": forward}))
        done(post("/optim_step", address | {"seq_id": 2, "adam_params": {"learning_rate": 1e-4}}))
