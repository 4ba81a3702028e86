"""`spindle serve`: a server from its settings, and what it says when it is ready."""

import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from socket import socket
from typing import Annotated

import typer
from rich.markup import escape

import spindle.backends as backends
from spindle.backends import models
from spindle.backends.contract import PluginInfo
from spindle.cli.console import DataOption, UsageProblemError, say, status, warn
from spindle.cli.kinds import LIMIT_KINDS
from spindle.cli.models import pull
from spindle.cli.settings import Settings, in_force, load
from spindle.control import Service
from spindle.control.keys import api_key
from spindle.control.limits import Limits
from spindle.control.lock import exclusive
from spindle.control.records import LOCAL
from spindle.wire import create_app
from spindle.wire.server import bind, serve

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
    if settings.keys and (secrets := settings.keys_file or config) is not None:
        _warn_of_readers(secrets)
    with exclusive(settings.folder):
        _serve(settings)


def _serve(settings: Settings) -> None:
    cache = models.cache_directory(settings.folder)
    keys = settings.keys or {LOCAL: api_key(settings.folder, os.environ)}
    listener = _bind(settings)
    served = _base_models(settings, cache)
    with status(f"Loading {', '.join(served)} ..."):
        backend = backends.load(
            served,
            device=settings.device,
            dtype=settings.dtype,
            threads=settings.threads,
            plugins=settings.plugins,
        )
        service = Service.build(backend, settings.folder, limits=settings.limits, public_url=settings.public_url)
    host, port = listener.getsockname()[:2]
    exports = {"TINKER_BASE_URL": f"http://{_reachable(host)}:{port}"}
    if not settings.keys:
        exports |= {"TINKER_API_KEY": keys[LOCAL]}
    exports |= {"HF_HUB_CACHE": str(cache)}
    app = create_app(service, keys, settings.grace)
    serve(app, listener, lambda: _announce(settings, backend.plugins(), list(served), exports))
    if service.engine.running:
        os._exit(0)  # a long computation is in the way; nothing unfinished is visible on disk


def _warn_of_readers(file: Path) -> None:
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        warn(f"{file} holds keys and others on this machine can read it; `chmod 600 {shlex.quote(str(file))}` helps.")


def _bind(settings: Settings) -> socket:
    try:
        return bind(settings.host, settings.port)
    except OSError as error:
        raise UsageProblemError(
            f"Cannot listen on {settings.host}:{settings.port} ({error.strerror}); choose another --port, or 0 for any."
        ) from error


def _base_models(settings: Settings, cache: Path) -> dict[str, Path]:
    if not settings.models:
        default = pull(None, cache)
        return {default.name: default.path}
    served = [
        models.serve(models.full_name(model.name), cache)
        if model.path is None
        else models.register_local(model.name, model.path, cache)
        for model in settings.models
    ]
    return {model.name: model.path for model in served}


def _reachable(host: str) -> str:
    """The address to tell clients on this machine, when the server listens on all of them."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _announce(settings: Settings, plugins: Sequence[PluginInfo], served: list[str], exports: Mapping[str, str]) -> None:
    say(f"[bold]Spindle[/] serves {', '.join(served)} at [bold]{exports['TINKER_BASE_URL']}[/]")
    for line in _particulars(settings, plugins):
        say(f"  {escape(line)}")
    say("For scripts that use the tinker SDK, in another terminal:\n")
    for name, value in exports.items():
        print(f"export {name}={shlex.quote(value)}", flush=True)
    if settings.keys:
        say(f"and TINKER_API_KEY as the key of {', '.join(map(escape, settings.keys))}.")
    say("\nCtrl-C stops it; named checkpoints stay.")


def _particulars(settings: Settings, plugins: Sequence[PluginInfo]) -> list[str]:
    """What decides about speed, results and rights."""
    lines = []
    if settings.public_url is not None:
        lines.append(f"from outside: {settings.public_url}")
    lines.append(f"runs on {backends.describe(settings.device, settings.dtype)}")
    lines += [f"plugin {file.path} brings {', '.join(file.provides)} (sha256 {file.sha256})" for file in plugins]
    for limit in fields(Limits):
        value, default = getattr(settings.limits, limit.name), limit.default
        if value != default:
            lines.append(f"limit {limit.name} {value:,} (usually {'none' if default is None else f'{default:,}'})")
    return lines
