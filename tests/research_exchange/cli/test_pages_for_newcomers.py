"""What the pages for newcomers tell a reader to type can be typed: every command exists and takes these options."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from research_exchange.cli.app import app

ROOT = Path(__file__).parents[3]
PAGES = [
    "README.md",
    "docs/tutorial.md",
    "docs/how-to/write-an-experiment.md",
    "docs/how-to/report-from-a-script.md",
    "docs/how-to/run-with-an-agent.md",
    "docs/how-to/review-a-run.md",
    "experiments/arithmetic/README.md",
    "src/research_exchange/harness/scaffold/README.md",
]


def commands(page: str) -> list[str]:
    """On lines of their own or in backticks, without what a shell takes for itself."""
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = re.findall(r"^ {4}(?:\.venv/bin/)?(rx [^#>&\n]*)", text, re.MULTILINE)
    shown += re.findall(r"`(?:\.venv/bin/)?(rx [^`]+)`", text)
    return sorted({line.strip() for line in shown})


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_the_page_is_one(page: str) -> None:
    lines = commands(page)
    assert lines
    for line in lines:
        words = shlex.split(line)[1:]
        command: Any = typer.main.get_command(app)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options | {"--"}, line


@pytest.mark.parametrize("page", PAGES)
def test_every_link_on_the_page_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", text):
        assert ((ROOT / page).parent / target).exists(), target
