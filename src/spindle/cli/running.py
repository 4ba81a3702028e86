"""Running a server: from its settings to its end, and what it says when it is ready."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from socket import socket

from rich.markup import escape

import spindle.backends as backends
from spindle.backends import models
from spindle.backends.contract import PluginInfo
from spindle.cli.announcing import Announcer
from spindle.cli.console import UsageProblemError, say, status
from spindle.cli.models import pull
from spindle.cli.settings import Settings
from spindle.control import Service
from spindle.control.keys import api_key
from spindle.control.limits import Limits
from spindle.control.records import LOCAL
from spindle.wire import create_app
from spindle.wire.server import bind, serve


def run(settings: Settings, announcer: Announcer) -> None:
    """Serve until SIGINT or SIGTERM."""
    cache = models.cache_directory(settings.folder)
    keys = settings.keys or {LOCAL: api_key(settings.folder, os.environ)}
    with _bind(settings) as listener:
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

        def ready() -> None:
            announcer.is_here(app.state.identity, exports)
            _announce(settings, backend.plugins(), list(served), exports)

        serve(app, listener, ready, announcer.take_back)
    if service.engine.running:
        os._exit(0)  # a long computation is in the way; nothing unfinished is visible on disk


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
