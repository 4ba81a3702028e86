"""The page about `rx` names every command and every option, and none that is not there."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

import research_exchange.cli
from research_exchange.cli.app import app
from research_exchange.documents.run_document import RunDocument

SOURCE = Path(research_exchange.cli.__file__).parents[1]
PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "rx-cli.md").read_text(encoding="utf-8")
GROUP: Any = typer.main.get_command(app)
SECTIONS = dict(re.findall(r"^## `rx ([\w ]+)`\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))


def commands(group: Any, words: str = "") -> dict[str, Any]:
    """Every command under the words that it is called by."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        called = f"{words} {name}".strip()
        found |= commands(command, called) if hasattr(command, "commands") else {called: command}
    return found


COMMANDS = commands(GROUP)


def test_every_command_has_a_section() -> None:
    assert sorted(SECTIONS) == sorted(COMMANDS)
    assert PAGE.count("\n## `rx ") == len(SECTIONS), "a section stands twice"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_names_the_options_of_its_command(name: str) -> None:
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts if option.startswith("--")}
    listed = set(re.findall(r"^\| `(--[\w-]+)", SECTIONS[name], re.MULTILINE))
    assert listed == options - {"--help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_a_command_and_each_option_is_for(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


def test_the_run_document_on_the_page_is_one() -> None:
    (example,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    document = RunDocument.parse(example.encode())
    assert [file.name for file in document.evidence] == ["train.py"]
    described = PAGE.partition("**A run document**")[2].partition("**A folder**")[0]
    assert re.findall(r"^\| `(\w+)`", described, re.MULTILINE) == list(json.loads(example))


def test_every_environment_variable_is_on_the_page() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    read = {name for name in re.findall(r'"(RX_[A-Z_]+)"', source) if not name.startswith("RX_HOOK_")}
    listed = set(re.findall(r"`(RX_[A-Z_]+)`", PAGE.partition("## Environment variables")[2]))
    assert listed == read


def test_exit_codes_are_those_of_the_help() -> None:
    assert GROUP.help is not None
    said = re.findall(r"(\d) ", GROUP.help.partition("Exit codes:")[2])
    assert re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE) == said
