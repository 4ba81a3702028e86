"""What `rx run`, `rx resume` and `rx redo` share: executing runs here, showing them, and what they came to."""

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from research_exchange.cli.console import UsageProblem, own_name
from research_exchange.cli.exchange import exit_code

if TYPE_CHECKING:
    from rich.console import Console

    from research_exchange.client import Exchange
    from research_exchange.runner import Ended, Launch, Means, Service
    from research_exchange.terminal.live import LiveView

RunnerName = Annotated[
    str, typer.Option("--runner", help="local: the spec's own command. agent: a coding agent that reads the brief.")
]
AgentCommand = Annotated[
    str | None,
    typer.Option(help="The agent's command, which reads the brief on its standard input; else $RX_AGENT_COMMAND."),
]
Profile = Annotated[str, typer.Option(help="The training service that a brief is written for, see `rx brief`.")]
Passed = Annotated[
    list[str] | None,
    typer.Option("--pass", metavar="NAME", help="A variable of this environment that the command gets; repeatable."),
]
LimitTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=NUMBER",
        help="For each process: memory (GiB), cpu (minutes), file (GiB), files (how many open); repeatable.",
    ),
]


def means_of(
    runner: str, agent_command: str | None, profile: str, passed: list[str] | None, limits: list[str] | None
) -> "Means":
    """How runs are executed, from the options. Raises UsageProblem where these do not fit together."""
    from research_exchange.briefs import PROFILE_NAMES
    from research_exchange.runner import AGENT_COMMAND_VARIABLE, Limits, Means
    from research_exchange.runner.environment import named_variables

    if runner not in ("local", "agent"):
        raise UsageProblem(f"There is no runner {runner!r}; local and agent execute runs, and manual is for `rx run`.")
    if profile not in PROFILE_NAMES:
        raise UsageProblem(f"There is no service profile {profile!r}; the profiles are {', '.join(PROFILE_NAMES)}.")
    command = agent_command or os.environ.get(AGENT_COMMAND_VARIABLE)
    if runner == "agent" and not command:
        raise UsageProblem("Which agent? Name its command with --agent-command or in RX_AGENT_COMMAND.")
    try:
        return Means(
            agent_command=command if runner == "agent" else None,
            profile=profile,
            passed=named_variables(passed or ()),
            limits=Limits.parse(limits or ()),
        )
    except KeyError as missing:
        raise UsageProblem(f"--pass names {missing.args[0]}, which is not set here.") from None
    except ValueError as wrong:
        raise UsageProblem(str(wrong)) from None


def execute(
    launches: "Sequence[Launch]",
    exchange: "Exchange",
    training: "Service",
    means: "Means",
    *,
    parallel: int = 1,
    as_json: bool,
) -> int:
    """Execute runs, so many at once, and show them. Returns the exit code: the worst of the runs."""
    from rich.console import Console

    from research_exchange.runner import all_at_once
    from research_exchange.terminal import live_view

    console = Console(stderr=as_json)
    stop = threading.Event()
    sittings = [launch.sitting(training, means, stop) for launch in launches]
    ended: dict[str, Ended] = {}

    with live_view(console) as view:

        def sit(launch: "Launch", sitting: Any) -> None:
            _head(console, launch)
            label = launch.run.id if len(launches) > 1 else ""
            ended[launch.run.id] = sitting.execute(_news(exchange, launch, view, label))

        jobs = [partial(sit, *pair) for pair in zip(launches, sittings, strict=True)]
        all_at_once(jobs, at_most=parallel, stop=stop)
    records = [_record(exchange, launch) for launch in launches]
    if as_json:
        print(json.dumps(records[0] if len(records) == 1 else records, indent=2))
    else:
        for launch, record in zip(launches, records, strict=True):
            _conclude(console, launch, record, ended[launch.run.id])
    return max(exit_code(record["recorded"]) for record in records)


def keep_serving(url: str) -> None:
    """Until Ctrl-C."""
    typer.echo(f"The Exchange keeps serving {url}; press Ctrl-C to stop it.", err=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        typer.echo("", err=True)


def stay_open(url: str, data: Path | None) -> None:
    """With somebody at the terminal, leave the page open until they have seen it."""
    if sys.stdin.isatty():
        keep_serving(url)
    typer.echo(f"The page opens again with `{own_name()} serve{f' --data {data}' if data else ''}`.")


def _head(console: "Console", launch: "Launch") -> None:
    from research_exchange.terminal import heading

    console.print(heading(launch.spec.title, launch.run.id, launch.run.page), soft_wrap=True)
    if launch.redo_of is not None:
        console.print(f"It repeats {launch.redo_of}, the newest run of this version with a verdict.", highlight=False)


def _news(exchange: "Exchange", launch: "Launch", view: "LiveView", label: str) -> Any:
    """What shows the updates of a run that are new since one last looked."""
    from research_exchange.client import Exchange
    from research_exchange.runner.follower import Follower

    follower = Follower(Exchange(exchange.url, launch.run.token, patience=0), launch.run.id)

    def show_news() -> None:
        for update in follower.new_updates():
            view.show(update, label)

    return show_news


def _record(exchange: "Exchange", launch: "Launch") -> dict[str, Any]:
    """What the Exchange has of a run, and of a repetition also how it agrees with the run that it repeats."""
    record = launch.run.record()
    if launch.redo_of is not None:
        found = exchange.agreement(launch.run.id)["agreements"]
        record["agreement"] = next((each for each in found if each["first"]["run"] == launch.redo_of), None)
    return record


def _conclude(console: "Console", launch: "Launch", record: Mapping[str, Any], ended: "Ended") -> None:
    from research_exchange.terminal import verdict_panel
    from research_exchange.terminal.comparison import agreement_report

    console.print(ended.reason, highlight=False, markup=False)
    log = None if ended.exit_code == 0 else str(ended.log)
    console.print(verdict_panel(record, page=launch.run.page, rx=own_name(), log=log))
    for entry in record["queue"]:
        if entry["claimed_at"] is None:
            waits = f"It waits for another session from {entry['not_before']}: {entry['reason']} `rx work` executes it."
            console.print(waits, highlight=False, markup=False)
    if record.get("agreement") is not None:
        console.print(agreement_report(record["agreement"]))
