"""`spindle models`: what is installed, and installing more."""

import re
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from spindle.backends import models
from spindle.backends.budget import TOKENS_AT_ONCE
from spindle.cli.console import DataOption, UsageProblemError, say, screen, warn
from spindle.cli.doctor import RANK
from spindle.cli.kinds import read_model
from spindle.control.lock import exclusive
from spindle_whereabouts import data_directory

app = typer.Typer(help="Base models on this machine; without a command, list them.", invoke_without_command=True)

NameArgument = Annotated[str, typer.Argument(help="The name it is listed under.", metavar="NAME")]


@app.callback()
def _default(context: typer.Context, data: DataOption = None) -> None:
    if context.invoked_subcommand is None:
        list_command(data)
    elif data is not None:
        raise UsageProblemError(
            f"Write --data after the command: spindle models {context.invoked_subcommand} --data {data}"
        )


@app.command(name="list")
def list_command(data: DataOption = None) -> None:
    """List the installed models; piped, one line of tab-separated fields for each."""
    there, problems = [], []
    for model in models.installed(models.cache_directory(data_directory(data))):
        try:
            there.append(_described(model))
        except models.ModelError as error:
            problems.append(str(error))
    for entry in there:
        print(_stanza(entry) if sys.stdout.isatty() else "\t".join(entry))
    for problem in problems:
        warn(problem)
    if not there and not problems:
        say("No model is installed; `spindle models pull` fetches the default one.")


@app.command(name="pull")
def pull_command(
    name: Annotated[
        str, typer.Argument(help="ORG/NAME on the Hugging Face hub, or an alias.", metavar="NAME")
    ] = models.DEFAULT_MODEL,
    data: DataOption = None,
) -> None:
    """Install a model from the Hugging Face hub (HF_ENDPOINT and HF_TOKEN count); one that is there stays as it is."""
    installed = pull(name, models.cache_directory(data_directory(data)))
    say(f"{installed.name} is installed in {escape(str(installed.path))}")


@app.command(name="add")
def add_command(
    model: Annotated[str, typer.Argument(help="A name, and the directory to serve under it.", metavar="NAME=PATH")],
    data: DataOption = None,
) -> None:
    """Install a model that lies in a local directory, in the Hugging Face layout. Its files stay where they are."""
    given = read_model(model, Path.cwd()) if re.fullmatch("[^=]+=.+", model) else None
    if given is None or given.path is None:
        raise UsageProblemError(f"{model!r} is not NAME=PATH, e.g. my-org/my-model=./model-folder.")
    added = models.add(given.name, given.path, models.cache_directory(data_directory(data)))
    say(f"{added.name} is served from {escape(str(added.path))}")
    if not models.has_tokenizer(added.path):
        warn(f"{added.path} holds no tokenizer; clients look for that of {added.name} on the Hugging Face hub.")


@app.command(name="remove")
def remove_command(name: NameArgument, data: DataOption = None) -> None:
    """Delete a model that was pulled, or forget one that was added; its directory stays."""
    folder = data_directory(data)
    with exclusive(folder):
        model = models.remove(models.full_name(name), models.cache_directory(folder))
    if model.path.exists():
        say(f"{model.name} is forgotten; its files stay in {escape(str(model.path))}")
    else:
        say(f"{model.name} is deleted")


def pull(name: str | None, cache: Path) -> models.InstalledModel:
    """Install a model behind a progress bar; None stands for what is served when none is named."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(f"Installing {name or 'the default model'}", total=1.0)

        def show(progress: models.Progress) -> None:
            bar.update(task, description=progress.stage, completed=progress.fraction)

        return models.default(cache, show) if name is None else models.pull(name, cache, show)


class _Entry(NamedTuple):
    """What is listed of a model, in the order of a line's fields.

    Memory is that of a server on a CPU; a training step takes the default budget of tokens and an adapter of rank 32.
    """

    name: str
    architecture: str
    parameters: str
    context: str
    on_disk: str
    weights: str
    training_step: str
    source: str


def _described(model: models.InstalledModel) -> _Entry:
    info = models.inspect(model.name, model.path)
    memory = models.estimate(info, RANK, TOKENS_AT_ONCE, sequences=0, dtype="float32")
    return _Entry(
        name=model.name,
        architecture=info.architecture,
        parameters=f"{memory.weights / 4e6:.1f} M",
        context=str(info.context_length),
        on_disk=f"{models.size(model.path) / 1e9:.2f} GB",
        weights=f"{memory.weights / 1e9:.2f} GB",
        training_step=f"{memory.total / 1e9:.2f} GB",
        source=model.source,
    )


def _stanza(entry: _Entry) -> str:
    """For eyes: a table of these does not fit a terminal."""
    return (
        f"{entry.name}\n"
        f"  {entry.architecture}, {entry.parameters} parameters, context {entry.context}\n"
        f"  {entry.on_disk} on disk; in memory {entry.weights}, while training {entry.training_step}\n"
        f"  from {entry.source}"
    )
