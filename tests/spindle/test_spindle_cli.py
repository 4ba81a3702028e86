"""The command line, as a person meets it: what goes wrong is one line, without a traceback."""

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
from spindle.control.lock import exclusive
from spindle_whereabouts import data_directory
from tests.spindle.command import spindle


def test_version_of_the_command_and_of_the_module() -> None:
    said = f"spindle {version('research-exchange')}\n"
    assert spindle("--version").stdout == said
    module = [sys.executable, "-m", "spindle.cli", "--version"]
    assert subprocess.run(module, capture_output=True, text=True, check=True).stdout == said


@pytest.mark.parametrize("argument", ["no-equals-sign", "=path", "name="])
def test_adding_what_is_no_pair(tmp_path: Path, argument: str) -> None:
    assert "is not NAME=PATH" in spindle("models", "add", argument, "--data", str(tmp_path)).complaint


def test_a_model_that_is_not_installed(tmp_path: Path) -> None:
    line = spindle("serve", "--model", "org/name", "--port", "0", "--data", str(tmp_path)).complaint
    assert "No model is installed as 'org/name' (installed: none); fetch it with `spindle models pull org/name`" in line


def test_a_model_folder_that_is_not_there(tmp_path: Path) -> None:
    result = spindle("serve", "--model", "org/name=/nowhere", "--port", "0", "--data", str(tmp_path))
    assert "/nowhere" in result.complaint


@pytest.mark.parametrize("folder", ["models [old]", "x[/y]"])
def test_brackets_in_a_path_are_shown_as_they_are(tmp_path: Path, folder: str) -> None:
    result = spindle("serve", "--model", f"org/name=/nowhere/{folder}", "--port", "0", "--data", str(tmp_path))
    assert f"/nowhere/{folder}" in result.complaint


def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = spindle("serve", "--data", str(tmp_path / "file")).complaint
    assert str(tmp_path / "file") in line
    assert "--data" in line


def test_help_says_where_the_data_folder_is() -> None:
    assert "$SPINDLE_DATA" in spindle("serve", "--help", COLUMNS="200").stdout


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = spindle("serve", "--model", "org/name=/nowhere", "--port", port, "--data", str(tmp_path))
    assert f"Cannot listen on 127.0.0.1:{port}" in result.complaint


def test_a_data_folder_in_use(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        assert "Another spindle serves" in spindle("serve", "--data", str(tmp_path)).complaint


def test_a_key_that_no_client_would_send_is_refused_unseen(tmp_path: Path) -> None:
    line = spindle("serve", "--data", str(tmp_path), SPINDLE_API_KEY="hunter2-hunter2").complaint
    assert "SPINDLE_API_KEY must start with tml-" in line
    assert "hunter2" not in line


def test_a_model_nobody_knows(tmp_path: Path) -> None:
    assert "gpt-17" in spindle("models", "pull", "gpt-17", "--data", str(tmp_path)).complaint


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
