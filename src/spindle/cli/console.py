"""How the command talks: results on stdout, everything said to people on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

screen = Console(stderr=True, highlight=False)

DataOption = Annotated[
    Path | None, typer.Option("--data", help="Data folder.", show_default="$SPINDLE_DATA or the user's data folder")
]


class UsageProblemError(Exception):
    """An argument or setting that cannot be used; one sentence."""


def say(text: str) -> None:
    """One line for people; rich markup, so values go through `escape`."""
    screen.print(text, soft_wrap=True)


def warn(sentence: str) -> None:
    """Something that works, and should be looked at."""
    say(f"[bold yellow]spindle: warning:[/] {escape(sentence)}")


def complain(sentence: str) -> None:
    """What went wrong."""
    say(f"[bold red]spindle:[/] {escape(sentence)}")


@contextmanager
def status(text: str) -> Iterator[None]:
    """A moving line on a terminal, nothing elsewhere."""
    if sys.stderr.isatty():
        with screen.status(text):
            yield
    else:
        yield
