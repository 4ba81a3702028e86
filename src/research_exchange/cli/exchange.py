"""The commands that talk to an Exchange: serve it, run a spec through it, and read what became of it."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from research_exchange.cli.console import NOT_WELL, WELL, AsJson, display

if TYPE_CHECKING:
    from research_exchange.cli.spec_file import SpecFile
    from research_exchange.client import Exchange
    from research_exchange.runner import Service

Data = Annotated[
    Path | None,
    typer.Option(help="The Exchange's data folder; by default $RX_DATA, else ~/.local/share/research-exchange."),
]
Address = Annotated[
    str | None,
    typer.Option("--exchange", help="The address of a running Exchange; by default $RX_URL, else the data folder's."),
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id: run_ and 10 hexadecimal digits.")]


def serve(
    data: Data = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes any free one.")] = 8300,
) -> None:
    """Serve the Exchange: its pages and its API."""
    from research_exchange.web import serve as serve_exchange

    serve_exchange(_folder(data), host, port)


def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The spec; its folder holds what its command needs.")],
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Run a spec on this machine, and see the verdict that the Exchange recomputes.

    An Exchange and a training service (TINKER_BASE_URL) that do not run yet are started, and stopped at the end.
    """
    from research_exchange.cli.spec_file import SpecFile
    from research_exchange.runner import exchange_service, training_service

    folder = _folder(data)
    spec_file = SpecFile.read(spec)
    say = partial(typer.echo, err=as_json)
    with exchange_service(folder, exchange, say=say) as service:
        with training_service(folder, say=say) as training:
            judgment = _execute(spec_file, _connect(service.url, folder), training, folder, as_json)
        if service.child is not None and not as_json:
            _keep_serving(service.url, data)
    raise typer.Exit(exit_code(judgment))


def runs(data: Data = None, exchange: Address = None, as_json: AsJson = False) -> None:
    """List the newest runs."""
    from research_exchange.terminal import runs_table

    with connected_exchange(data, exchange) as connected:
        listed = connected.runs()
    display(listed, runs_table, as_json)


def show(run_id: RunId, data: Data = None, exchange: Address = None, as_json: AsJson = False) -> None:
    """Show a run: its outcome on record, its arms, its gates and its evidence."""
    from research_exchange.terminal import run_report

    with connected_exchange(data, exchange) as connected:
        record = connected.run(run_id).record()
    display(record, run_report, as_json)


def _folder(data: Path | None) -> Path:
    from research_exchange.server.process import default_data_folder

    return data or default_data_folder()


@contextmanager
def connected_exchange(data: Path | None, url: str | None) -> Iterator["Exchange"]:
    """The Exchange to read from; one of the data folder's own, for as long as it takes, when none is running."""
    from research_exchange.runner import exchange_service

    folder = _folder(data)
    with exchange_service(folder, url) as service:
        yield _connect(service.url, folder)


def _connect(url: str, folder: Path) -> "Exchange":
    """With the admin token of whoever runs this: RX_ADMIN_TOKEN, else the data folder's."""
    from research_exchange.client import Exchange

    kept = folder / "admin-token"
    token = os.environ.get("RX_ADMIN_TOKEN") or (kept.read_text().strip() if kept.exists() else None)
    return Exchange(url, token)


def _execute(
    spec_file: "SpecFile", exchange: "Exchange", training: "Service", folder: Path, as_json: bool
) -> Mapping[str, Any]:
    """Register, run, watch and show; returns the judgment on record."""
    from rich.console import Console

    from research_exchange.client import Exchange
    from research_exchange.runner import LocalRun
    from research_exchange.runner.follower import Follower
    from research_exchange.terminal import heading, live_view, verdict_panel

    console = Console(stderr=as_json)
    new_run = exchange.create_run(exchange.register(spec_file.spec.raw))
    console.print(heading(spec_file.spec.title, new_run.id, new_run.page), soft_wrap=True)
    local = LocalRun(
        run=new_run,
        spec_folder=spec_file.folder,
        command=spec_file.command,
        training=training,
        work=folder / "work" / new_run.id,
        wall_seconds=spec_file.wall_seconds,
    )
    follower = Follower(Exchange(exchange.url, patience=0), new_run.id)
    with live_view(console) as view:

        def show_news() -> None:
            for update in follower.new_updates():
                view.show(update)

        ended = local.execute(show_news)
    console.print(ended.reason, highlight=False, markup=False)
    record = new_run.record()
    if as_json:
        print(json.dumps(record, indent=2))
    else:
        log = None if ended.exit_code == 0 else str(local.log)
        console.print(verdict_panel(record, page=new_run.page, rx=_own_name(), log=log))
    judgment: Mapping[str, Any] = record["recorded"]
    return judgment


def _keep_serving(url: str, data: Path | None) -> None:
    """With somebody at the terminal, leave the page open until they have seen it."""
    if sys.stdin.isatty():
        typer.echo(f"The Exchange keeps serving {url}; press Ctrl-C to stop it.")
        try:
            signal.pause()
        except KeyboardInterrupt:
            typer.echo("")
    typer.echo(f"The page opens again with `{_own_name()} serve{f' --data {data}' if data else ''}`.")


def _own_name() -> str:
    """`rx` where the shell finds it, else the path that was typed, such as .venv/bin/rx."""
    typed = Path(sys.argv[0])
    return "rx" if shutil.which("rx") or typed.name != "rx" else str(typed)


def exit_code(judgment: Mapping[str, Any]) -> int:
    """Well is a judgment that rests on the science alone; an inconclusive one may be."""
    return WELL if judgment["basis"] in {"agreed", "reported", "decision"} else NOT_WELL
