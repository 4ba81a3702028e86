"""The root of the command, and how failures are told: one line, without a traceback."""

import logging
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from spindle.backends import MachineError, ModelError, PluginError
from spindle.cli import models
from spindle.cli.console import UsageProblemError, complain
from spindle.cli.doctor import doctor_command
from spindle.cli.serve import serve_command
from spindle.control.keys import KeyProblemError
from spindle.control.lock import DataInUseError

app = typer.Typer(
    help="A Tinker-compatible training service that runs on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(name="serve")(serve_command)
app.command(name="doctor")(doctor_command)
app.add_typer(models.app, name="models")


def main() -> None:
    """Run the command; what goes wrong is one line on stderr."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        app()
    except (UsageProblemError, KeyProblemError, DataInUseError, MachineError, ModelError, PluginError) as error:
        _fail(str(error))
    except OSError as error:
        where = "" if error.filename is None else f" at {error.filename}"
        _fail(f"{error.strerror or error}{where}; choose another place with --data, or make room and access there.")


def _fail(sentence: str) -> NoReturn:
    complain(sentence)
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
