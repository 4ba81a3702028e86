"""The command line, as a person meets it: what goes wrong is one line, without a traceback."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from spindle.cli.app import app
from spindle.config import data_directory
from spindle.control.lock import exclusive


def spindle(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPINDLE_")}
    return subprocess.run(
        [sys.executable, "-m", "spindle.cli", *arguments],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def complaint(result: "subprocess.CompletedProcess[str]") -> str:
    assert result.returncode == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("spindle: ")
    return line


def test_version() -> None:
    result = spindle("--version")
    assert (result.returncode, result.stdout) == (0, f"spindle {version('research-exchange')}\n")


@pytest.mark.parametrize("argument", ["no-equals-sign", "=path", "name="])
def test_adding_what_is_no_pair(tmp_path: Path, argument: str) -> None:
    assert "is not NAME=PATH" in complaint(spindle("models", "add", argument, "--data", str(tmp_path)))


def test_a_model_that_is_not_installed(tmp_path: Path) -> None:
    line = complaint(spindle("serve", "--model", "org/name", "--port", "0", "--data", str(tmp_path)))
    assert "No model is installed as 'org/name' (installed: none); fetch it with `spindle models pull org/name`" in line


def test_a_model_folder_that_is_not_there(tmp_path: Path) -> None:
    result = spindle("serve", "--model", "org/name=/nowhere", "--port", "0", "--data", str(tmp_path))
    assert "/nowhere" in complaint(result)


@pytest.mark.parametrize("folder", ["models [old]", "x[/y]"])
def test_brackets_in_a_path_are_shown_as_they_are(tmp_path: Path, folder: str) -> None:
    result = spindle("serve", "--model", f"org/name=/nowhere/{folder}", "--port", "0", "--data", str(tmp_path))
    assert f"/nowhere/{folder}" in complaint(result)


def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = complaint(spindle("serve", "--data", str(tmp_path / "file")))
    assert str(tmp_path / "file") in line
    assert "--data" in line


def test_help_says_where_the_data_folder_is() -> None:
    assert "$SPINDLE_DATA" in spindle("serve", "--help", COLUMNS="200").stdout


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = spindle("serve", "--model", "org/name=/nowhere", "--port", port, "--data", str(tmp_path))
    assert f"Cannot listen on 127.0.0.1:{port}" in complaint(result)


def test_a_data_folder_in_use(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        assert "Another spindle serves" in complaint(spindle("serve", "--data", str(tmp_path)))


def test_a_key_that_no_client_would_send_is_refused_unseen(tmp_path: Path) -> None:
    line = complaint(spindle("serve", "--data", str(tmp_path), SPINDLE_API_KEY="hunter2-hunter2"))
    assert "SPINDLE_API_KEY must start with tml-" in line
    assert "hunter2" not in line


def test_a_model_nobody_knows(tmp_path: Path) -> None:
    assert "gpt-17" in complaint(spindle("models", "pull", "gpt-17", "--data", str(tmp_path)))


def test_no_models_are_an_empty_list(tmp_path: Path) -> None:
    result = spindle("models", "list", "--data", str(tmp_path))
    assert (result.returncode, result.stdout) == (0, "")
    assert "spindle models pull" in result.stderr


def test_the_data_folder_is_the_one_given_then_the_environment_then_the_platform(tmp_path: Path) -> None:
    assert data_directory(tmp_path, {"SPINDLE_DATA": "/elsewhere"}) == tmp_path
    assert data_directory(None, {"SPINDLE_DATA": "/elsewhere"}) == Path("/elsewhere")
    assert data_directory(None, {"XDG_DATA_HOME": "/share"}) in (
        Path("/share/spindle"),
        Path.home() / "Library" / "Application Support" / "spindle",
    )


def test_the_page_about_the_command_names_every_command_and_option_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "spindle-cli.md").read_text()
    commands, options = zip(*walk(typer.main.get_command(app), "spindle"), strict=True)
    for command in commands:
        assert f"`{command}" in page
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) == set().union(*options) | {"--help"}


def walk(command: Any, name: str) -> Iterator[tuple[str, set[str]]]:
    """Each command below one with its options."""
    yield name, {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    for below, child in getattr(command, "commands", {}).items():
        yield from walk(child, f"{name} {below}")
