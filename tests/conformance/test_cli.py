"""Every group of the stock `tinker` command line: the commands run in this process, one in its own."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tinker
from click.testing import CliRunner, Result
from safetensors.numpy import load_file
from tinker.cli.__main__ import main_cli

from tests.servers import MODEL, SpindleServer

Tinker = Callable[..., str]


@pytest.fixture
def invoke(server: SpindleServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """One command in the environment that the server asks for, at home in a new folder."""
    environment = {"TINKER_BASE_URL": server.url, "TINKER_API_KEY": server.key, "HOME": str(tmp_path), "COLUMNS": "300"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, typed: str = "") -> Result:
        return CliRunner().invoke(main_cli, arguments, input=typed)

    return run


@pytest.fixture
def cli(invoke: Callable[..., Result]) -> Tinker:
    """What a command prints; it must not fail."""

    def run(*arguments: str, typed: str = "") -> str:
        done = invoke(*arguments, typed=typed)
        assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
        return done.stdout

    return run


@pytest.fixture
def listed(cli: Tinker) -> Callable[..., Any]:
    """What a command prints as JSON."""
    return lambda *arguments: json.loads(cli("--format", "json", *arguments))


@pytest.fixture
def saved(training: tinker.TrainingClient) -> Iterator[list[str]]:
    """Paths of a training state, a sampler snapshot and an export."""
    saves: list[Callable[[str], Any]] = [
        training.save_state,
        training.save_weights_for_sampler,
        training.save_weights_external,
    ]
    yield [save("a").result(60).path for save in saves]


def test_runs(cli: Tinker, listed: Callable[..., Any], training: tinker.TrainingClient, saved: list[str]) -> None:
    columns = "id,model,owner,lora,updated,status,checkpoint,checkpoint_time"
    table = cli("run", "list", "--limit", "1", "--columns", columns)
    for cell in (training.model_id, MODEL, "Rank 4", "OK", "weights/a"):
        assert cell in table
    (run,) = listed("run", "list", "--limit", "1")["runs"]
    assert run["training_run_id"] == training.model_id
    assert len(listed("run", "list", "--limit", "0")["runs"]) >= 1
    shown = cli("run", "info", training.model_id)
    for path in saved[:2]:
        assert path in shown


def test_checkpoints(
    cli: Tinker, listed: Callable[..., Any], training: tinker.TrainingClient, saved: list[str]
) -> None:
    state, snapshot, export = saved
    rows = listed("checkpoint", "list", "--run-id", training.model_id)["checkpoints"]
    assert [row["tinker_path"] for row in rows] == saved[::-1]
    assert listed("checkpoint", "list", "--limit", "3")["checkpoints"] == rows
    assert "external_weights/a" in cli("checkpoint", "list", "--limit", "0")
    cli("checkpoint", "publish", state)
    cli("checkpoint", "set-ttl", state, "--ttl", "7200")
    shown = listed("checkpoint", "info", state)
    assert (shown["public"], shown["lora_rank"]) == (True, 4)
    assert shown["expires_at"] is not None
    cli("checkpoint", "unpublish", state)
    cli("checkpoint", "set-ttl", state, "--remove")
    shown = listed("checkpoint", "info", state)
    assert (shown["public"], shown["expires_at"]) == (False, None)
    dated = ["--type", "sampler_weights", "--after", "2020-01-01", "--before", "2100-01-01T00:00:00Z"]
    assert listed("checkpoint", "delete", "--run-id", training.model_id, *dated, "--yes")["deleted_count"] == 1
    assert "Deleted 1" in cli("checkpoint", "delete", export, typed="y\n")
    failed = listed("checkpoint", "delete", snapshot, "--yes")["failed"]
    assert "There is no checkpoint" in failed[0]["error"]
    left = listed("checkpoint", "list", "--run-id", training.model_id)["checkpoints"]
    assert [row["tinker_path"] for row in left] == [state]


def test_a_training_state_and_an_export_are_downloaded_the_same(
    cli: Tinker, listed: Callable[..., Any], saved: list[str], tmp_path: Path
) -> None:
    state, _, export = saved
    adapters = []
    for path in (state, export):
        cli("checkpoint", "download", path, "--output", str(tmp_path / "got"))
        folder = tmp_path / "got" / path.removeprefix("tinker://").replace("/", "_")
        assert {file.name for file in folder.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
        adapters.append(load_file(folder / "adapter_model.safetensors"))
    assert all((adapters[0][name] == tensor).all() for name, tensor in adapters[1].items())
    left = listed("checkpoint", "list", "--limit", "0")["checkpoints"]
    assert "external_weights/download" not in {row["checkpoint_id"] for row in left}


def test_what_is_wrong_is_said_as_the_server_said_it(
    invoke: Callable[..., Result], training: tinker.TrainingClient, saved: list[str]
) -> None:
    refused = {
        "There is no training run": invoke("run", "info", "none:train:0"),
        "There is no checkpoint": invoke("checkpoint", "publish", saved[0].replace("/a", "/none")),
        "ttl_seconds is 60": invoke("checkpoint", "set-ttl", saved[0], "--ttl", "60"),
        "Sampler checkpoints cannot be downloaded": invoke("checkpoint", "download", saved[1]),
    }
    for words, done in refused.items():
        assert done.exit_code != 0
        assert words in f"{vars(done.exception) if done.exception else ''} {done.exception} {done.output}"


def test_models_billing_and_sessions(
    cli: Tinker, listed: Callable[..., Any], invoke: Callable[..., Result], training: tinker.TrainingClient
) -> None:
    assert MODEL in cli("model", "list")
    assert MODEL in cli("model", "list", "tiny")
    window = ("2026-07-13T00:00:00Z", "2026-07-14T00:00:00Z")
    assert listed("billing", "usage", *window)["data"] == []
    assert cli("billing", "checkpoint-storage")
    trace = invoke("session", "export-trace", training.model_id.partition(":")[0])
    assert trace.exit_code != 0
    assert "keeps no traces" in f"{trace.exception} {trace.output}"


def test_keys_are_checked_stored_and_forgotten(
    cli: Tinker, server: SpindleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Tinker accessible: yes" in cli("auth", "status")
    monkeypatch.delenv("TINKER_API_KEY")
    assert "Logged in as" in cli("auth", "login", typed=f"{server.key}\n")
    assert "Tinker accessible: yes" in cli("auth", "status")
    assert "Removed credential" in cli("auth", "logout")


def test_the_command_itself(server: SpindleServer) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("tinker"), "checkpoint", "list", "--limit", "1"],
        env={**server.client_environment()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Checkpoint ID" in done.stdout or "No checkpoints found" in done.stdout
