"""The root of the command, and how failures are told: one sentence on standard error, without a traceback."""

import io
import signal
import sys
from typing import Annotated

import typer

from research_exchange.cli import bundles, comparing, exchange, judging, running, specs
from research_exchange.cli.console import NOT_CHECKED, USAGE, UsageProblem

app = typer.Typer(
    help="""Research Exchange: from an experiment's spec to a verdict recomputed from its evidence.

    Exit codes: 0 it is well, 1 it was checked and is not, 2 it was asked wrongly, 3 it could not be checked.""",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_SPEC, _RUN, _EXCHANGE = "A spec", "A run", "The Exchange"

app.command(rich_help_panel=_SPEC)(specs.lint)
app.command(rich_help_panel=_SPEC)(specs.power)
app.command(rich_help_panel=_SPEC)(specs.brief)
app.command(rich_help_panel=_SPEC)(specs.schema)
app.command(rich_help_panel=_SPEC)(comparing.diff)
app.command(rich_help_panel=_RUN)(running.run)
app.command(rich_help_panel=_RUN)(running.resume)
app.command(rich_help_panel=_RUN)(running.redo)
app.command(rich_help_panel=_RUN)(running.cancel)
app.command(rich_help_panel=_RUN)(running.queue)
app.command(rich_help_panel=_RUN)(running.work)
app.command(rich_help_panel=_RUN)(judging.check)
app.command(rich_help_panel=_RUN)(judging.judge)
app.command(rich_help_panel=_RUN)(exchange.show)
app.command(rich_help_panel=_RUN)(exchange.runs)
app.command(rich_help_panel=_RUN)(comparing.compare)
app.command(rich_help_panel=_RUN)(bundles.export)
app.command(rich_help_panel=_RUN)(bundles.verify)
app.command(rich_help_panel=_EXCHANGE)(exchange.serve)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"rx {version('research-exchange')}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The command: what goes wrong is one sentence on standard error, never a traceback."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no ± or … shows a question mark
    try:
        app()
    except Exception as trouble:
        code = _code_for(trouble)
        if code is None:
            raise
        print(f"rx: {trouble}", file=sys.stderr)
        sys.exit(code)


def _code_for(trouble: Exception) -> int | None:
    """The exit code of a failure that explains itself; None for a defect of ours."""
    if isinstance(trouble, UsageProblem):
        return USAGE

    from research_exchange.client import ExchangeError, ExchangeRefused
    from research_exchange.runner import CannotExecute, NoTimeLeft, ServiceError
    from research_exchange.runner.script import FolderTooLarge
    from research_exchange.server import CannotServe

    match trouble:
        case ExchangeRefused() | FolderTooLarge() | CannotServe() | CannotExecute() | NoTimeLeft():
            return USAGE
        case ServiceError() | ExchangeError() | OSError():
            return NOT_CHECKED
        case _:
            return None
