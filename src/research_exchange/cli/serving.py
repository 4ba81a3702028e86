"""`rx serve`: the Exchange as a service."""

from typing import Annotated

import typer

from research_exchange.cli.exchange import Data, data_folder
from research_exchange.cli.places import DatabaseUrl, EvidenceUrl
from research_exchange.whereabouts import DEFAULT_HOST, DEFAULT_PORT


def serve(
    data: Data = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = DEFAULT_HOST,
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes any free one.")] = DEFAULT_PORT,
    or_any: Annotated[
        bool, typer.Option("--or-any", help="Take any free port where that one is taken, instead of saying so.")
    ] = False,
    database_url: DatabaseUrl = None,
    evidence_url: EvidenceUrl = None,
    require_login: Annotated[
        bool,
        typer.Option(
            "--require-login",
            help="Ask for a token for reading as well, as on an address that other machines reach.",
        ),
    ] = False,
) -> None:
    """Serve the Exchange: its pages and its API, until Ctrl-C."""
    from research_exchange.web import serve as serve_exchange

    serve_exchange(
        data_folder(data),
        host,
        port,
        or_any=or_any,
        require_login=require_login,
        database_url=database_url,
        evidence_url=evidence_url,
    )
