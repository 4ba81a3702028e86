"""`spindle serve`: a server from its settings, and what it says when it is ready."""

import os
import shlex
from pathlib import Path
from socket import socket
from typing import Annotated

import typer

import spindle.backends as backends
from spindle.backends import models
from spindle.cli.console import DataOption, UsageProblemError, say, status
from spindle.cli.models import pull
from spindle.config import DEFAULT_HOST, DEFAULT_PORT, ServeOptions, data_directory
from spindle.control import Service
from spindle.control.keys import api_key
from spindle.control.lock import exclusive
from spindle.wire import create_app
from spindle.wire.server import bind, serve


def serve_command(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="NAME=PATH of a base model; may be repeated.", metavar="NAME=PATH"),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = DEFAULT_HOST,
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)
    ] = DEFAULT_PORT,
    data: DataOption = None,
) -> None:
    """Serve until Ctrl-C. Without --model: the default model, pulled when missing."""
    options = ServeOptions(data_directory(data), host, port, dict(map(_name_and_path, model or [])))
    with exclusive(options.data):
        _serve(options)


def _name_and_path(argument: str) -> tuple[str, Path]:
    name, equals, path = argument.partition("=")
    if not equals or not name or not path:
        raise UsageProblemError(f"--model {argument!r} is not NAME=PATH, e.g. --model my-org/my-model=./model-folder.")
    return name, Path(path)


def _serve(options: ServeOptions) -> None:
    cache = models.cache_directory(options.data)
    key = api_key(options.data, os.environ)
    listener = _bind(options)
    served = _base_models(options, cache)
    with status(f"Loading {', '.join(served)} ..."):
        service = Service.build(backends.load(served), options.data)
    host, port = listener.getsockname()[:2]
    url = f"http://{_reachable(host)}:{port}"
    serve(create_app(service, key), listener, lambda: _announce(url, key, cache, list(served)))
    if service.engine.running:
        os._exit(0)  # a long computation is in the way; nothing unfinished is visible on disk


def _bind(options: ServeOptions) -> socket:
    try:
        return bind(options.host, options.port)
    except OSError as error:
        raise UsageProblemError(
            f"Cannot listen on {options.host}:{options.port} ({error.strerror}); choose another --port, or 0 for any."
        ) from error


def _base_models(options: ServeOptions, cache: Path) -> dict[str, Path]:
    if options.models:
        return {name: models.register_local(name, path, cache).path for name, path in options.models.items()}
    default = pull(models.DEFAULT_MODEL, cache)
    return {default.name: default.path}


def _reachable(host: str) -> str:
    """The address to tell clients on this machine, when the server listens on all of them."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _announce(url: str, key: str, cache: Path, served: list[str]) -> None:
    say(f"[bold]Spindle[/] serves {', '.join(served)} at [bold]{url}[/]")
    say("For scripts that use the tinker SDK, in another terminal:\n")
    for name, value in {"TINKER_BASE_URL": url, "TINKER_API_KEY": key, "HF_HUB_CACHE": str(cache)}.items():
        print(f"export {name}={shlex.quote(value)}", flush=True)
    say("\nCtrl-C stops it; named checkpoints stay.")
