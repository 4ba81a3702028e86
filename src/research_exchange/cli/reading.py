"""`rx runs`, `rx show` and `rx logs`: what an Exchange has of runs, and what happens to one while it goes on."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from research_exchange.cli.console import AsJson, Limit, Offset, UsageProblem, display
from research_exchange.cli.exchange import Address, Data, RunId, connected_exchange

if TYPE_CHECKING:
    from research_exchange.client import Event, Exchange


def runs(
    limit: Limit = 50,
    offset: Offset = 0,
    state: Annotated[
        str | None,
        typer.Option(help="Only those that are created, queued, running, finished, partial, lost or cancelled."),
    ] = None,
    spec_id: Annotated[str | None, typer.Option("--spec", help="Only those of this spec version (exp_…).")] = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """List the newest runs, each with where it stands and the verdict on record."""
    from research_exchange.terminal import runs_table

    with connected_exchange(data, exchange) as connected:
        page = connected.runs_page(limit=limit, offset=offset, spec_id=spec_id, state=state)
    display(page, runs_table, as_json)


def show(run_id: RunId, data: Data = None, exchange: Address = None, as_json: AsJson = False) -> None:
    """Show a run: its outcome on record, its arms, its gates and its evidence."""
    from research_exchange.terminal import run_report

    with connected_exchange(data, exchange) as connected:
        record = connected.run(run_id).record()
    display(record, run_report, as_json)


def logs(
    run_id: RunId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until the run is over.")
    ] = False,
    script: Annotated[
        bool, typer.Option("--script", help="What the script itself said: the logs that its runner retained.")
    ] = False,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Say what happened to a run: its sessions, updates, files and outcomes, a line for each thing.

    With --json an object a line, so that it can be read while it is written.
    """
    with connected_exchange(data, exchange) as connected:
        if script:
            _print_script_logs(connected, run_id)
            return
        _print_events(_happening(connected, run_id, follow), as_json)


def _happening(connected: "Exchange", run_id: str, follow: bool) -> "Iterator[Event]":
    """What is on record of a run, in the order of time; with `follow` also what comes, until the run is over."""
    from research_exchange.terminal.logs import moment_of

    record = connected.run(run_id).record()
    on_record, is_over = _count(record), _is_over(record)
    if on_record == 0 and not follow:
        return
    events = connected.events(run_id)
    yield from sorted(islice(events, on_record), key=moment_of)
    if is_over or not follow:
        return
    for event in events:
        yield event
        if event.kind in _ENDINGS and _is_over(connected.run(run_id).record()):
            return


_ENDINGS = ("outcome", "cancelled", "session_end")


def _count(record: Mapping[str, Any]) -> int:
    """How many events have made up a record."""
    ends = [session for session in record["sessions"] if session["ended_at"] is not None]
    lists = (record["evidence"], record["sessions"], ends, record["queue"], record["outcomes"])
    updates: int = record["updates_total"]
    return updates + sum(map(len, lists)) + (record["cancelled"] is not None)


def _is_over(record: Mapping[str, Any]) -> bool:
    """Whether a run has an outcome, and nobody is at it or about to be."""
    is_at_work = any(session["ended_at"] is None for session in record["sessions"])
    is_waiting = record["cancelled"] is None and any(entry["claimed_at"] is None for entry in record["queue"])
    return bool(record["outcomes"]) and not is_at_work and not is_waiting


def _print_events(events: "Iterator[Event]", as_json: bool) -> None:
    if as_json:
        for event in events:
            print(json.dumps({"id": event.id, "event": event.kind, "data": event.data}), flush=True)
        return
    from rich.console import Console

    from research_exchange.terminal.logs import log_lines

    console = Console(highlight=False)
    for line in log_lines(events):
        console.print(line, soft_wrap=True)


def _print_script_logs(connected: "Exchange", run_id: str) -> None:
    """Raises UsageProblem where none was retained."""
    from research_exchange.presentation.words import printable

    names = [file["name"] for file in connected.run(run_id).record()["evidence"] if file["kind"] == "log"]
    if not names:
        raise UsageProblem(f"{run_id} has no log among its evidence; a runner retains it when its session ends.")
    for name in names:
        print(printable(connected.file(run_id, name).decode("utf-8", "replace")), end="")
