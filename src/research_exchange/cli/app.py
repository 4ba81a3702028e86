"""The root of the command, and how failures are told: one sentence on standard error, without a traceback."""

import io
import signal
import sys
from typing import Annotated

import typer

from research_exchange.cli import (
    access,
    bundles,
    comparing,
    doctor,
    hooks,
    ideas,
    judging,
    maintenance,
    reading,
    reporting,
    running,
    scaffold,
    serving,
    specs,
    spooling,
)
from research_exchange.cli.console import NOT_CHECKED, NOT_WELL, USAGE, UsageProblem

app = typer.Typer(
    help="""Research Exchange: from an experiment's spec to a verdict recomputed from its evidence.

    Exit codes: 0 it is well, 1 it was checked and is not, 2 it was asked wrongly, 3 it could not be checked.""",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_IDEA, _SPEC, _RUN, _RESULT, _EXCHANGE = (
    "An idea",
    "A spec",
    "A run while it goes on",
    "What came of it",
    "The Exchange",
)

app.command(rich_help_panel=_IDEA)(ideas.ideas)
app.add_typer(ideas.idea, name="idea", rich_help_panel=_IDEA)
app.command(rich_help_panel=_SPEC)(scaffold.new)
app.command(rich_help_panel=_SPEC)(specs.lint)
app.command(rich_help_panel=_SPEC)(specs.power)
app.command(rich_help_panel=_SPEC)(specs.brief)
app.command(rich_help_panel=_SPEC)(specs.schema)
app.command(rich_help_panel=_SPEC)(ideas.save)
app.command(rich_help_panel=_SPEC)(ideas.specs)
app.command(rich_help_panel=_SPEC)(comparing.diff)
app.command(rich_help_panel=_RUN)(running.run)
app.command(rich_help_panel=_RUN)(running.resume)
app.command(rich_help_panel=_RUN)(running.redo)
app.command(rich_help_panel=_RUN)(running.cancel)
app.command(rich_help_panel=_RUN)(running.queue)
app.command(rich_help_panel=_RUN)(running.work)
app.command(rich_help_panel=_RUN)(reading.logs)
app.add_typer(spooling.spool, name="spool", rich_help_panel=_RUN)
app.command(rich_help_panel=_RESULT)(reading.runs)
app.command(rich_help_panel=_RESULT)(reading.show)
app.command(rich_help_panel=_RESULT)(judging.check)
app.command(rich_help_panel=_RESULT)(judging.decide)
app.command(rich_help_panel=_RESULT)(judging.judge)
app.command(rich_help_panel=_RESULT)(comparing.compare)
app.command(rich_help_panel=_RESULT)(reporting.report)
app.command(rich_help_panel=_RESULT)(bundles.export)
app.command(rich_help_panel=_RESULT)(bundles.verify)
app.command(rich_help_panel=_EXCHANGE)(serving.serve)
app.command(rich_help_panel=_EXCHANGE)(doctor.doctor)
app.command(rich_help_panel=_EXCHANGE)(access.tokens)
app.add_typer(access.token, name="token", rich_help_panel=_EXCHANGE)
app.command(rich_help_panel=_EXCHANGE)(hooks.hooks)
app.add_typer(hooks.hook, name="hook", rich_help_panel=_EXCHANGE)
app.command(rich_help_panel=_EXCHANGE)(access.audit)
app.command(rich_help_panel=_EXCHANGE)(maintenance.backup)
app.command(rich_help_panel=_EXCHANGE)(maintenance.restore)
app.command(rich_help_panel=_EXCHANGE)(maintenance.prune)


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
        print(f"rx: {_told(trouble)}", file=sys.stderr)
        sys.exit(code)


def _told(trouble: Exception) -> str:
    """Its sentence; where an Exchange names several problems, each on a line of its own."""
    from research_exchange.client import ExchangeRefused

    if isinstance(trouble, ExchangeRefused) and len(trouble.problems) > 1:
        return "\n  ".join([trouble.sentence, *trouble.problems])
    if isinstance(trouble, OSError) and trouble.strerror and trouble.filename:
        return f"{trouble.filename}: {trouble.strerror}."
    return str(trouble)


def _code_for(trouble: Exception) -> int | None:
    """The exit code of a failure that explains itself; None for a defect of ours."""
    if isinstance(trouble, UsageProblem):
        return USAGE

    from research_exchange.client import ExchangeError, ExchangeRefused, SpecRefused
    from research_exchange.runner import CannotExecute, NoTimeLeft, ServiceError
    from research_exchange.runner.script import UnfitFolder

    match trouble:
        case SpecRefused():
            return NOT_WELL
        case ExchangeRefused() | UnfitFolder() | CannotExecute() | NoTimeLeft():
            return USAGE
        case ServiceError() | ExchangeError() | OSError():
            return NOT_CHECKED

    from research_exchange.server import CannotServe

    return USAGE if isinstance(trouble, CannotServe) else None
