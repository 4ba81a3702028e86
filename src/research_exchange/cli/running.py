"""The commands that execute runs: at once, again, later, or never after all."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from research_exchange.cli.console import AsJson, Limit, Offset, UsageProblem, display, print_json
from research_exchange.cli.exchange import Address, Data, RunId, connect, connected_exchange, data_folder
from research_exchange.cli.executing import (
    AgentCommand,
    LimitTexts,
    Passed,
    Profile,
    RunnerName,
    execute,
    keep_serving,
    means_of,
    stay_open,
)

if TYPE_CHECKING:
    from research_exchange.cli.spec_file import SpecFile
    from research_exchange.client import Run


def run(
    specs: Annotated[
        list[Path], typer.Argument(metavar="SPEC...", help="Each spec; its folder holds what its command needs.")
    ],
    runner: Annotated[
        str,
        typer.Option(help="local: the spec's own command. agent: a coding agent. manual: whoever reads the brief."),
    ] = "local",
    agent_command: AgentCommand = None,
    profile: Profile = "spindle",
    passed: Passed = None,
    limits: LimitTexts = None,
    parallel: Annotated[int, typer.Option(min=1, help="How many of several specs run at once.")] = 2,
    redo: Annotated[
        str, typer.Option(help="auto: as a repetition of the version's newest settled run, if it has one. never.")
    ] = "never",
    queue: Annotated[bool, typer.Option("--queue", help="Leave the run to a worker, see `rx work`.")] = False,
    legacy: Annotated[
        bool, typer.Option("--legacy", help="Admit a spec that lint finds errors in, as one from before its rules.")
    ] = False,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Run specs on this machine, and see the verdicts that the Exchange recomputes.

    An Exchange and a training service (TINKER_BASE_URL) that do not run yet are started, and stopped at the end.
    """
    from research_exchange.cli.spec_file import SpecFile
    from research_exchange.runner import command_of, exchange_service, launch, training_service

    if redo not in ("auto", "never"):
        raise UsageProblem(f"--redo is auto or never; found {redo!r}.")
    files = [SpecFile.read(path) for path in specs]
    if runner == "manual":
        if len(files) > 1 or queue:
            raise UsageProblem("The manual runner hands over one spec at a time, and none to a queue.")
        _hand_over(files[0], profile, legacy, data, exchange, as_json)
        return
    means = means_of(runner, agent_command, profile, passed, limits)
    if runner == "local":
        for file in files:
            command_of(file.spec)
    folder = data_folder(data)
    say = partial(typer.echo, err=as_json)
    with exchange_service(folder, exchange, say=say) as service:
        connected = connect(service.url, folder)
        make = partial(launch, connected, data=folder, legacy=legacy, redo=redo == "auto", queue=queue)
        if queue:
            made = [make(file.spec, file.folder) for file in files]
            _say_queued([each.run for each in made], as_json)
            return
        with training_service(folder, say=say) as training:
            made = [make(file.spec, file.folder) for file in files]
            code = execute(made, connected, training, means, parallel=parallel, as_json=as_json)
        if service.child is not None and not as_json:
            stay_open(service.url, data)
    raise typer.Exit(code)


def resume(
    run_id: RunId,
    runner: RunnerName = "local",
    agent_command: AgentCommand = None,
    profile: Profile = "spindle",
    passed: Passed = None,
    limits: LimitTexts = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that broke off: the same run, in a new session, with what its script kept in RX_WORK."""
    from research_exchange.documents.spec import Spec
    from research_exchange.runner import Launch, WorkFolder, exchange_service, training_service
    from research_exchange.runner.sitting import TAKEOVER_SECONDS

    means = means_of(runner, agent_command, profile, passed, limits)
    folder = data_folder(data)
    say = partial(typer.echo, err=as_json)
    with exchange_service(folder, exchange, say=say) as service:
        connected = connect(service.url, folder)
        record = connected.run(run_id).record()
        if record["state"]["final_update"] is not None:
            raise UsageProblem(f"{run_id} has posted its final update, so nothing is left to resume; use `rx redo`.")
        if record["cancelled"] is not None:
            raise UsageProblem(f"{run_id} was cancelled, so it does not go on; use `rx redo`.")
        kept = WorkFolder.of(folder, run_id)
        with kept.occupied(wait=TAKEOVER_SECONDS):
            resumed = connected.resume(run_id)
            for session in record["sessions"]:
                if session["ended_at"] is None:
                    reason = "Its runner was gone when the run was resumed."
                    resumed.end_session(session["id"], exit_code=None, reason=reason)
        made = Launch(resumed, Spec.parse(resumed.spec_bytes()), kept)
        with training_service(folder, say=say) as training:
            code = execute([made], connected, training, means, as_json=as_json)
    raise typer.Exit(code)


def redo(
    run_id: RunId,
    runner: RunnerName = "local",
    agent_command: AgentCommand = None,
    profile: Profile = "spindle",
    passed: Passed = None,
    limits: LimitTexts = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Repeat a run: a new run of the same version and the same files, to see whether its result comes out again."""
    from research_exchange.runner import exchange_service, repeat, training_service

    means = means_of(runner, agent_command, profile, passed, limits)
    folder = data_folder(data)
    say = partial(typer.echo, err=as_json)
    with exchange_service(folder, exchange, say=say) as service:
        connected = connect(service.url, folder)
        with training_service(folder, say=say) as training:
            launched = repeat(connected, run_id, folder)
            code = execute([launched], connected, training, means, as_json=as_json)
    raise typer.Exit(code)


def cancel(
    run_id: RunId,
    reason: Annotated[str, typer.Option(help="Why, in words; it goes on record.")] = "",
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a run: its runner stops, and what is finished counts as a partial result."""
    with connected_exchange(data, exchange) as connected:
        connected.cancel(run_id, reason)
        record = connected.run(run_id).record() if as_json else None
    if record is not None:
        print_json(record)
        return
    typer.echo(f"{run_id} is cancelled; a runner that is at work stops at its next sign of life.")


def queue(
    limit: Limit = 50, offset: Offset = 0, data: Data = None, exchange: Address = None, as_json: AsJson = False
) -> None:
    """List the runs that wait for a worker, and why each waits."""
    from research_exchange.terminal.queue import queue_table

    with connected_exchange(data, exchange) as connected:
        waiting = connected.queue(limit=limit, offset=offset)
    display(waiting, queue_table, as_json)


def work(
    slots: Annotated[int, typer.Option(min=1, help="How many runs at once.")] = 1,
    once: Annotated[
        bool, typer.Option("--once", help="End when nothing is due and nothing is being executed.")
    ] = False,
    runner: RunnerName = "local",
    agent_command: AgentCommand = None,
    profile: Profile = "spindle",
    passed: Passed = None,
    limits: LimitTexts = None,
    data: Data = None,
    exchange: Address = None,
) -> None:
    """Execute the runs that wait, until Ctrl-C: those that were queued, and those that a full service had stopped."""
    from research_exchange.runner import Worker, exchange_service, training_service

    means = means_of(runner, agent_command, profile, passed, limits)
    folder = data_folder(data)
    with (
        exchange_service(folder, exchange, say=typer.echo) as service,
        training_service(folder, say=typer.echo) as training,
    ):
        Worker(connect(service.url, folder), folder, training, means, typer.echo).work(slots=slots, once=once)


def _hand_over(
    file: "SpecFile", profile: str, legacy: bool, data: Path | None, address: str | None, as_json: bool
) -> None:
    """The manual runner: a run, its token and its brief, for whoever carries it out."""
    from research_exchange.runner import exchange_service

    means_of("local", None, profile, None, None)
    folder = data_folder(data)
    with exchange_service(folder, address, say=partial(typer.echo, err=True)) as service:
        connected = connect(service.url, folder)
        made = connected.create_run(connected.register(file.spec.raw, legacy=legacy))
        session = made.begin_session(runner="manual", profile=profile)
        brief = made.brief(profile)
        if as_json:
            keys = {"run": made.id, "page": made.page, "session": session, "token": made.token}
            print(json.dumps({**keys, "url": service.url, "brief": brief}, indent=2), flush=True)
        else:
            print(brief, end="", flush=True)
            typer.echo(f"export RX_URL={service.url} RX_RUN_ID={made.id} RX_RUN_TOKEN={made.token}", err=True)
            typer.echo(f"The brief is on standard output. What you post appears at {made.page}.", err=True)
        if service.child is not None:
            keep_serving(service.url)


def _say_queued(made: "list[Run]", as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"run": run.id, "page": run.page} for run in made], indent=2))
        return
    for run in made:
        typer.echo(f"{run.id} waits for a worker: {run.page}")
    typer.echo("`rx work` executes what waits; `rx queue` lists it.")
