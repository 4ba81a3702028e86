"""`spindle doctor`: what this machine offers a server, and what is wrong with it."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from spindle.backends.budget import TOKENS_AT_ONCE
from spindle.cli.console import DataOption
from spindle.cli.settings import load

RANK = 32

_MARKS = {"ok": "[green]ok[/]   ", "note": "[yellow]note[/] ", "wrong": "[bold red]wrong[/]"}


def doctor_command(
    config: Annotated[
        Path | None, typer.Option(help="The TOML file that the server is started with.", metavar="FILE")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A base model, as for `spindle serve`. May be repeated.",
            metavar="NAME[=PATH]",
            show_default="the default model",
        ),
    ] = None,
    batch_tokens: Annotated[
        int, typer.Option(help="Tokens trained at once, for the memory needed.", min=1)
    ] = TOKENS_AT_ONCE,
    rank: Annotated[int, typer.Option(help="Rank of the adapter.", min=1, max=256)] = RANK,
    sequences: Annotated[int, typer.Option(help="Sequences sampled at once, to the full context.", min=0)] = 0,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    dtype: Annotated[str | None, typer.Option(help="auto, float32 or bfloat16.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads on a CPU.")] = None,
    plugin: Annotated[
        list[str] | None, typer.Option(help="A plugin file; it is loaded. May be repeated.", metavar="FILE")
    ] = None,
    data: DataOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look at what a server needs here, and say what is wrong. Exits with 1 if something is."""
    from spindle.cli.checks import Work, checks

    settings = load(
        config,
        {
            "models": model,
            "host": host,
            "port": port,
            "data": None if data is None else str(data),
            "device": device,
            "dtype": dtype,
            "threads": threads,
            "plugins": plugin,
        },
    )
    results = list(checks(settings, Work(batch_tokens, rank, sequences), os.environ))
    well = all(check.state != "wrong" for check in results)
    if as_json:
        print(json.dumps({"ok": well, "checks": [asdict(check) for check in results]}, indent=2))
    else:
        paper = Console(highlight=False, soft_wrap=True)
        for check in results:
            paper.print(f"{_MARKS[check.state]} [bold]{escape(check.name)}[/]: {escape(check.found)}")
            if check.advice is not None:
                paper.print(f"      {escape(check.advice)}")
    if not well:
        raise typer.Exit(1)
