"""The page for operators: its service file and its container file are held against this repository and this program."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from research_exchange.cli.app import app
from tests.services.ports import free_ports

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "operate.md").read_text(encoding="utf-8")
GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands
RX = str(Path(sys.executable).parent / "rx")


class _Unit(configparser.ConfigParser):
    """A unit file, whose keys are not all lower case."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def _block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def _instructions() -> list[tuple[str, str]]:
    """Of the container file: each instruction with what follows it."""
    lines = _block("dockerfile").splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def _only(instruction: str) -> str:
    (rest,) = [rest for word, rest in _instructions() if word == instruction]
    return rest


def _understood(arguments: list[str]) -> None:
    """Parses a command of ours as the program would; raises where it would refuse it."""
    name, *rest = arguments
    COMMANDS[name].make_context(name, rest)


def test_every_command_of_the_page_is_one() -> None:
    named = [
        shlex.split(line.strip().partition("rx ")[2]) for line in re.findall(r"^ {4}.*\brx .*$", PAGE, re.MULTILINE)
    ]
    assert len(named) > 6
    for arguments in named:
        command = COMMANDS[arguments[0]]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {each for each in arguments if each.startswith("--")} <= options


def test_every_variable_of_the_page_is_read_somewhere() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for name in set(re.findall(r"\b(?:RX|AWS)_[A-Z_]+\b", PAGE)):
        assert name in source


def test_extras_of_the_page_exist() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extras in re.findall(r"\[([a-z0-9,]+)\]['\"]", PAGE):
        assert set(extras.split(",")) <= set(known)


def test_the_service_file_is_one_that_systemd_knows(tmp_path: Path) -> None:
    unit = _Unit(interpolation=None)
    unit.read_string(_block("ini"))
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "rx"
    _understood(arguments)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed here, so only its command was checked")
    file = tmp_path / "exchange.service"
    file.write_text(_block("ini").replace(program, RX))
    said = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("", "")


def test_the_container_file_uses_what_is_there() -> None:
    instructions = _instructions()
    assert instructions[0][0] == "FROM"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=" + re.findall(r"python:([\d.]+)-slim", instructions[0][1])[0]
    copied = [name for word, rest in instructions if word == "COPY" for name in rest.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    needed = {"pyproject.toml", "src", project["readme"], *project["license-files"], "constraints.txt"}
    assert set(copied) == needed
    assert json.loads(_only("ENTRYPOINT")) == ["rx"]
    _understood(json.loads(_only("CMD")))
    assert instructions.index(("USER", "exchange")) < [word for word, _ in instructions].index("ENTRYPOINT")


def test_the_server_of_the_container_is_healthy_as_the_file_asks(tmp_path: Path) -> None:
    [port] = free_ports(1)
    name, _, value = _only("ENV").partition("=")
    assert (name, value) == ("RX_DATA", _only("VOLUME"))
    arguments = json.loads(_only("CMD"))
    arguments[arguments.index("--host") + 1] = "127.0.0.1"
    environment = {**os.environ, name: str(tmp_path / "data"), "RX_REQUIRE_LOGIN": "1"}
    check = [sys.executable, *json.loads(_only("HEALTHCHECK").removeprefix("CMD "))[1:]]
    assert _only("EXPOSE") in check[-1]
    check[-1] = check[-1].replace(_only("EXPOSE"), str(port))
    command = [RX, *arguments, "--port", str(port)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == f"export RX_URL=http://127.0.0.1:{port}\n"
            assert subprocess.run(check, check=False).returncode == 0
        finally:
            server.terminate()
    assert server.returncode == 0
    assert subprocess.run(check, check=False, capture_output=True).returncode != 0
