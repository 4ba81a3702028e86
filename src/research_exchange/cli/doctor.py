"""`rx doctor`: whether what an Exchange and its runs need is there."""

import os
from dataclasses import asdict

import typer

from research_exchange.cli.console import NOT_WELL, WELL, AsJson, print_json
from research_exchange.cli.exchange import Address, Data, data_folder
from research_exchange.cli.places import DatabaseUrl, EvidenceUrl


def doctor(
    data: Data = None,
    exchange: Address = None,
    database_url: DatabaseUrl = None,
    evidence_url: EvidenceUrl = None,
    as_json: AsJson = False,
) -> None:
    """Look at what an Exchange and its runs need here, and say what is wrong and what to do about it.

    Nothing is changed. Ends with 1 when something is wrong.
    """
    from rich.console import Console

    from research_exchange.cli.checkup import Check, Place, checks
    from research_exchange.terminal.checkup import check_line

    found: list[Check] = []
    console = Console(highlight=False)
    for check in checks(Place(data_folder(data), exchange, database_url, evidence_url, os.environ)):
        found.append(check)
        if not as_json:
            console.print(check_line(check))
    well = all(check.state != "wrong" for check in found)
    if as_json:
        print_json({"ok": well, "checks": [asdict(check) for check in found]})
    raise typer.Exit(WELL if well else NOT_WELL)
