"""The commands that serve an Exchange and read what it holds."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from research_exchange.cli.console import NOT_WELL, WELL, AsJson, display

if TYPE_CHECKING:
    from research_exchange.client import Exchange

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

    serve_exchange(data_folder(data), host, port)


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


def data_folder(data: Path | None) -> Path:
    """As given, else the usual place."""
    from research_exchange.server.process import default_data_folder

    return data or default_data_folder()


@contextmanager
def connected_exchange(data: Path | None, url: str | None) -> Iterator["Exchange"]:
    """The Exchange to read from; one of the data folder's own, for as long as it takes, when none is running."""
    from research_exchange.runner import exchange_service

    folder = data_folder(data)
    with exchange_service(folder, url) as service:
        yield connect(service.url, folder)


def connect(url: str, folder: Path) -> "Exchange":
    """With the admin token of whoever runs this: RX_ADMIN_TOKEN, else the data folder's."""
    from research_exchange.client import Exchange

    kept = folder / "admin-token"
    token = os.environ.get("RX_ADMIN_TOKEN") or (kept.read_text().strip() if kept.exists() else None)
    return Exchange(url, token)


def exit_code(judgment: Mapping[str, Any]) -> int:
    """Well is a judgment that rests on the science alone; an inconclusive one may be."""
    from research_exchange.outcome import ON_SCIENCE_ALONE

    return WELL if judgment["basis"] in ON_SCIENCE_ALONE else NOT_WELL
