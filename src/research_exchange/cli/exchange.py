"""How a command finds its Exchange: the options that name it, where it is, and the token that opens it."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from research_exchange.cli.console import NOT_WELL, WELL

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
    """With RX_TOKEN, else RX_ADMIN_TOKEN, else, for the Exchange that serves the data folder, the folder's own."""
    from research_exchange.client import Exchange

    kept = folder / "admin-token"
    token = os.environ.get("RX_TOKEN") or os.environ.get("RX_ADMIN_TOKEN")
    if not token and _serves(url, folder) and kept.exists():
        token = kept.read_text().strip()
    return Exchange(url, token)


def _serves(url: str, folder: Path) -> bool:
    """Whether the Exchange at this address says that it serves this folder: to no other goes the folder's token."""
    from research_exchange.server.process import SERVER_FILE

    try:
        announced = str(json.loads((folder / SERVER_FILE).read_text())["url"])
        return _place(url) == _place(announced)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _place(url: str) -> tuple[str, int | None]:
    """Host and port, where all names of this machine are one. Raises ValueError for what is no address."""
    from research_exchange.server.door import is_loopback

    parts = urlsplit(url)
    host = parts.hostname or ""
    return "localhost" if is_loopback(host) else host, parts.port


def exit_code(judgment: Mapping[str, Any]) -> int:
    """Well is a judgment that rests on the science alone; an inconclusive one may be."""
    from research_exchange.outcome import ON_SCIENCE_ALONE

    return WELL if judgment["basis"] in ON_SCIENCE_ALONE else NOT_WELL
