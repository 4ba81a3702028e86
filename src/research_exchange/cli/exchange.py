"""How a command finds its Exchange: the options that name it, where it is, and the token that opens it."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from research_exchange.cli.console import NOT_WELL, WELL, UsageProblem
from research_exchange.whereabouts import ADMIN_TOKEN_FILE, default_data_folder, is_loopback

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

RUN_ID, SPEC_ID = re.compile(r"run_[0-9a-f]{10}"), re.compile(r"exp_[0-9a-f]{10}")


def id_of(what: str, prefix: str) -> Callable[[str], str]:
    """Lets an id of this kind pass, and raises UsageProblem for anything else."""

    def check(given: str) -> str:
        if not re.fullmatch(prefix + "[0-9a-f]{10}", given):
            raise UsageProblem(
                f"{given!r} is no {what}'s id ({prefix} and 10 hexadecimal digits); `rx {what}s` lists them."
            )
        return given

    return check


RunId = Annotated[
    str,
    typer.Argument(metavar="RUN", help="The run's id: run_ and 10 hexadecimal digits.", callback=id_of("run", "run_")),
]


def data_folder(data: Path | None) -> Path:
    """As given, else the usual place."""
    return data or default_data_folder()


@contextmanager
def connected_exchange(data: Path | None, url: str | None) -> Iterator["Exchange"]:
    """The Exchange to read from; one of the data folder's own, for as long as it takes, when none is running."""
    from research_exchange.runner import exchange_service

    folder = data_folder(data)
    with exchange_service(folder, url) as service:
        yield connect(service.url, folder)


def connect(url: str, folder: Path) -> "Exchange":
    """With RX_TOKEN, else RX_ADMIN_TOKEN, else, for the Exchange that serves the data folder, the folder's own.

    The folder's token goes to no other, and to the very address at which that one proved who it is.
    """
    from research_exchange.client import Exchange
    from research_exchange.runner.services import announced_exchange

    kept = folder / ADMIN_TOKEN_FILE
    token = os.environ.get("RX_TOKEN") or os.environ.get("RX_ADMIN_TOKEN")
    if not token and kept.exists():
        announced = announced_exchange(folder)
        if announced is not None and _is_same_place(url, announced):
            return Exchange(announced, kept.read_text().strip())
    return Exchange(url, token)


def _is_same_place(url: str, other: str) -> bool:
    try:
        return _place(url) == _place(other)
    except ValueError:
        return False


def _place(url: str) -> tuple[str, int | None]:
    """Host and port, where all names of this machine are one. Raises ValueError for what is no address."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return "localhost" if is_loopback(host) else host, parts.port


def exit_code(judgment: Mapping[str, Any]) -> int:
    """Well is a judgment that rests on the science alone; an inconclusive one may be."""
    from research_exchange.outcome import ON_SCIENCE_ALONE

    return WELL if judgment["basis"] in ON_SCIENCE_ALONE else NOT_WELL
