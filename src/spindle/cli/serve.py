"""`spindle serve`: a server from its settings, and what it says when it is ready."""

from pathlib import Path
from typing import Annotated

import typer

from spindle.cli.announcing import announcing
from spindle.cli.console import DataOption, warn
from spindle.cli.kinds import LIMIT_KINDS
from spindle.cli.settings import Settings, exposure, in_force, load
from spindle.cli.unused import stop_when_unlocked
from spindle.control.lock import exclusive

DEFAULTS = Settings()


def serve_command(
    config: Annotated[
        Path | None, typer.Option(help="A TOML file of settings; options win over it.", metavar="FILE")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A base model: NAME of an installed one, or NAME=PATH. May be repeated.",
            metavar="NAME[=PATH]",
            show_default="the default model, pulled when missing",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default=DEFAULTS.host)] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 takes any free one.", show_default=str(DEFAULTS.port))
    ] = None,
    public_url: Annotated[str | None, typer.Option(help="Where clients reach the server from outside.")] = None,
    data: DataOption = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.", show_default=DEFAULTS.device)] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Of base weights: auto, float32 or bfloat16.", show_default=DEFAULTS.dtype)
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of torch on a CPU.", show_default="torch's choice")
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option(help="A file with optimizers or losses. May be repeated.", metavar="FILE"),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(LIMIT_KINDS)}. May be repeated.", metavar="NAME=VALUE"),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(
            help="Seconds the running computation may take to end at a stop.", show_default=f"{DEFAULTS.grace:g}"
        ),
    ] = None,
    keys_file: Annotated[
        str | None, typer.Option(help="A TOML file with a key for each owner.", metavar="FILE")
    ] = None,
    while_locked: Annotated[
        Path | None,
        typer.Option(help="Stop once no other process holds a lock (flock) on this file.", metavar="FILE"),
    ] = None,
    print_config: Annotated[bool, typer.Option("--print-config", help="Show the settings in force and exit.")] = False,
) -> None:
    """Serve the tinker SDK until Ctrl-C."""
    settings = load(
        config,
        {
            "models": model,
            "host": host,
            "port": port,
            "public_url": public_url,
            "data": None if data is None else str(data),
            "device": device,
            "dtype": dtype,
            "threads": threads,
            "plugins": plugin,
            "limits": limit,
            "grace": grace,
            "keys_file": keys_file,
        },
    )
    if print_config:
        print(in_force(settings))
        return
    from spindle.cli.running import run  # takes a second to import

    if (warning := exposure(settings)) is not None:
        warn(warning)
    with exclusive(settings.folder), announcing(settings.folder) as announcer:
        if while_locked is not None:
            stop_when_unlocked(while_locked, settings.grace)
        run(settings, announcer)
