"""`rx spool send`: what a script reported while its Exchange was away, and did not live to send."""

import os
from pathlib import Path
from typing import Annotated

import typer

from research_exchange.cli.console import NOT_WELL, WELL, AsJson, UsageProblem, display
from research_exchange.cli.exchange import Address, Data, connected_exchange

spool = typer.Typer(help="What a script left unsent when its Exchange was away.", no_args_is_help=True)


@spool.command()
def send(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The spool: $RX_SPOOL, or spool in $RX_WORK.")],
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Post what a script that is gone left behind, in order, once each.

    The token is the run's own, RX_RUN_TOKEN, else a fresh one that yours can make. Ends with 1 when the Exchange
    refused something; that is kept in the folder `refused`, with the reason.
    """
    from research_exchange.client.connection import Connection
    from research_exchange.client.spool import Spool, SpoolProblem
    from research_exchange.terminal.spool import sent_report

    spools = Spool.below(folder)
    if not folder.is_dir():
        raise UsageProblem(f"{folder} is not a folder; name the one that the script's last words name.")
    sent = []
    try:
        with connected_exchange(data, exchange) as connected:
            for each in spools:
                waiting = each.waiting()
                run_id = each.read(waiting[0]).run_id
                refused = each.send(Connection(connected.url, _token(run_id) or connected.resume(run_id).token))
                sent.append({"run": run_id, "reports": len(waiting), "refused": [str(refusal) for refusal in refused]})
    except SpoolProblem as trouble:
        raise UsageProblem(str(trouble)) from None
    display({"sent": sent}, sent_report, as_json)
    raise typer.Exit(NOT_WELL if any(each["refused"] for each in sent) else WELL)


def _token(run_id: str) -> str | None:
    """The run's own token, where this shell has it."""
    return os.environ.get("RX_RUN_TOKEN") if os.environ.get("RX_RUN_ID") == run_id else None
