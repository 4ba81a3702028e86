"""What takes a process of its own to measure: peak memory, and the time from launch to the first training step."""

import shlex
import subprocess
import sys
import tempfile
from typing import Any

import httpx

from benchmarks.comparison import Comparison, seconds
from benchmarks.machine import Machine
from spindle.backends.models import InstalledModel

MEMORY_ROWS = (("32×128", 32, 128), ("16×512", 16, 512))


def memory(model: InstalledModel, _: Machine) -> list[Comparison]:
    """Peak resident memory of a process that imports, loads and does the work; GiB, less is better."""
    rows = []
    for name, sequences, length in MEMORY_ROWS:
        mine, theirs = (_peak(side, "train", model, sequences, length) for side in ("ours", "peers"))
        rows.append(Comparison(f"peak memory, train {name}", "PEFT + torch", mine, theirs, "GiB", target=1.0))
    mine, theirs = (_peak(side, "sample", model, 64, 64) for side in ("ours", "peers"))
    rows.append(Comparison("peak memory, sample", "transformers.generate", mine, theirs, "GiB", target=4.0 / theirs))
    return rows


def launch(model: InstalledModel, _: Machine) -> list[Comparison]:
    """From the start of `spindle serve` to the end of a first training step, against importing and loading alone."""
    theirs = seconds(lambda: _python(_BARE, str(model.path)))
    mine = seconds(lambda: _first_step(model))
    return [Comparison("launch to first training step", "import and load", mine, theirs, "s", target=2.0)]


_BARE = """
import sys, torch
from transformers import LlamaForCausalLM
LlamaForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
"""

_PEAK = """
import sys
from pathlib import Path
from benchmarks import ours, peers
from spindle.backends.models import InstalledModel
side, work, name, path, rows, length = sys.argv[1:]
model = InstalledModel(name, Path(path))
if work == "train":
    worker = ours.Spindle(model) if side == "ours" else peers.Peft(model.path)
    for _ in range(2):
        worker.forward_backward(peers.random_tokens(int(rows), int(length) + 1))
        worker.step()
else:
    worker = ours.Spindle(model) if side == "ours" else peers.Generate(model.path)
    worker.sample(peers.random_tokens(8, 48), int(rows) // 8, int(length))
status = Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


def _peak(side: str, work: str, model: InstalledModel, rows: int, length: int) -> float:
    said = _python(_PEAK, side, work, model.name, str(model.path), str(rows), str(length))
    return float(said.split()[-1]) / (1 << 20)


def _python(program: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ).stdout


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
