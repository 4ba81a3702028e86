"""`spindle models`: what is installed, and installing more."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from spindle.backends import models
from spindle.cli.console import DataOption, say, screen
from spindle.config import data_directory

app = typer.Typer(help="Base models on this machine.", no_args_is_help=True)


@app.command(name="pull")
def pull_command(
    alias: Annotated[str, typer.Argument(help="Which model.")] = models.DEFAULT_MODEL, data: DataOption = None
) -> None:
    """Install a model; an installed one is left as it is."""
    installed = pull(alias, models.cache_directory(data_directory(data)))
    say(f"{installed.name} is installed in {escape(str(installed.path))}")


@app.command(name="list")
def list_command(data: DataOption = None) -> None:
    """List the installed models."""
    table = Table("model", "folder", box=None)
    for model in models.installed(models.cache_directory(data_directory(data))):
        table.add_row(model.name, escape(str(model.path)))
    Console().print(table)


def pull(alias: str, cache: Path) -> models.InstalledModel:
    """Install a model behind a progress bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(f"Installing {alias}", total=1.0)
        return models.pull(
            alias, cache, lambda progress: bar.update(task, description=progress.stage, completed=progress.fraction)
        )
