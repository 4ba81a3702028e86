"""The `spindle` command: serve, and look after models."""

import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from socket import socket
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

import spindle.backends as backends
from spindle.backends import models
from spindle.config import DEFAULT_HOST, DEFAULT_PORT, ServeOptions, data_directory
from spindle.control import Service
from spindle.control.keys import KeyProblemError, api_key
from spindle.control.lock import DataInUseError, exclusive
from spindle.wire import create_app
from spindle.wire.server import bind, serve

screen = Console(stderr=True, highlight=False)

app = typer.Typer(
    help="A Tinker-compatible training service that runs on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
models_app = typer.Typer(help="Base models on this machine.", no_args_is_help=True)
app.add_typer(models_app, name="models")

DataOption = Annotated[
    Path | None, typer.Option("--data", help="Data folder.", show_default="$SPINDLE_DATA or the user's data folder")
]


class UsageProblemError(Exception):
    """An argument that cannot be used; one sentence."""


def main() -> None:
    """Run the command; what goes wrong is one line on stderr."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        app()
    except (UsageProblemError, KeyProblemError, DataInUseError, models.ModelError) as error:
        _complain(str(error))
    except OSError as error:
        where = "" if error.filename is None else f" at {error.filename}"
        _complain(f"{error.strerror or error}{where}; choose another place with --data, or make room and access there.")


def _complain(sentence: str) -> NoReturn:
    screen.print(f"[bold red]spindle:[/] {escape(sentence)}", soft_wrap=True)
    raise SystemExit(1)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spindle {version('research-exchange')}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(name="serve")
def serve_command(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="NAME=PATH of a base model; may be repeated.", metavar="NAME=PATH"),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = DEFAULT_HOST,
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)
    ] = DEFAULT_PORT,
    data: DataOption = None,
) -> None:
    """Serve until Ctrl-C. Without --model: the default model, pulled when missing."""
    options = ServeOptions(data_directory(data), host, port, dict(map(_name_and_path, model or [])))
    with exclusive(options.data):
        _serve(options)


@models_app.command(name="pull")
def pull_command(
    alias: Annotated[str, typer.Argument(help="Which model.")] = models.DEFAULT_MODEL, data: DataOption = None
) -> None:
    """Install a model; an installed one is left as it is."""
    installed = _pull(alias, models.cache_directory(data_directory(data)))
    screen.print(f"{installed.name} is installed in {escape(str(installed.path))}", soft_wrap=True)


@models_app.command(name="list")
def list_command(data: DataOption = None) -> None:
    """List the installed models."""
    table = Table("model", "folder", box=None)
    for model in models.installed(models.cache_directory(data_directory(data))):
        table.add_row(model.name, escape(str(model.path)))
    Console().print(table)


def _name_and_path(argument: str) -> tuple[str, Path]:
    name, equals, path = argument.partition("=")
    if not equals or not name or not path:
        raise UsageProblemError(f"--model {argument!r} is not NAME=PATH, e.g. --model my-org/my-model=./model-folder.")
    return name, Path(path)


def _serve(options: ServeOptions) -> None:
    cache = models.cache_directory(options.data)
    key = api_key(options.data, os.environ)
    listener = _bind(options)
    served = _base_models(options, cache)
    with _status(f"Loading {', '.join(served)} ..."):
        service = Service.build(backends.load(served), options.data)
    host, port = listener.getsockname()[:2]
    url = f"http://{_reachable(host)}:{port}"
    serve(create_app(service, key), listener, lambda: _announce(url, key, cache, list(served)))
    if service.engine.running:
        os._exit(0)  # a long computation is in the way; nothing unfinished is visible on disk


def _bind(options: ServeOptions) -> socket:
    try:
        return bind(options.host, options.port)
    except OSError as error:
        raise UsageProblemError(
            f"Cannot listen on {options.host}:{options.port} ({error.strerror}); choose another --port, or 0 for any."
        ) from error


def _base_models(options: ServeOptions, cache: Path) -> dict[str, Path]:
    if options.models:
        return {name: models.register_local(name, path, cache).path for name, path in options.models.items()}
    default = _pull(models.DEFAULT_MODEL, cache)
    return {default.name: default.path}


def _reachable(host: str) -> str:
    """The address to tell clients on this machine, when the server listens on all of them."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _announce(url: str, key: str, cache: Path, served: list[str]) -> None:
    screen.print(f"[bold]Spindle[/] serves {', '.join(served)} at [bold]{url}[/]", soft_wrap=True)
    screen.print("For scripts that use the tinker SDK, in another terminal:\n", soft_wrap=True)
    for name, value in {"TINKER_BASE_URL": url, "TINKER_API_KEY": key, "HF_HUB_CACHE": str(cache)}.items():
        print(f"export {name}={shlex.quote(value)}", flush=True)
    screen.print("\nCtrl-C stops it; named checkpoints stay.", soft_wrap=True)


def _pull(alias: str, cache: Path) -> models.InstalledModel:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(f"Installing {alias}", total=1.0)
        return models.pull(
            alias, cache, lambda progress: bar.update(task, description=progress.stage, completed=progress.fraction)
        )


@contextmanager
def _status(text: str) -> Iterator[None]:
    """A moving line on a terminal, nothing elsewhere."""
    if sys.stderr.isatty():
        with screen.status(text):
            yield
    else:
        yield


if __name__ == "__main__":
    main()
