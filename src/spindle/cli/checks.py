"""What could keep a server from starting, or slow it down: one check each, with advice where something is wrong."""

import errno
import json
import os
import platform
import shutil
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from spindle import backends
from spindle.backends import BaseModel, Machine, MachineError, ModelError, PluginError, models
from spindle.cli.kinds import Model
from spindle.cli.settings import Settings, exposure
from spindle.control.keys import KeyProblemError, api_key
from spindle.wire.server import bind

OLDEST_SDK, NEWEST_SDK = (0, 18), (0, 38)
"""The first and last versions of the tinker SDK that this Spindle serves."""
LEAST_DISK = 2e9
"""Bytes that a data folder should have free: some checkpoints of a small model with their optimizer states."""

State = Literal["ok", "note", "wrong"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    found: str
    state: State = "ok"
    """A note may slow things down or surprise; what is wrong keeps a server from working."""
    advice: str | None = None


@dataclass(frozen=True)
class Work:
    """What a model is asked to do, for the memory that it takes."""

    batch_tokens: int
    """Trained at once."""
    rank: int
    """Of the adapter."""
    sequences: int
    """Sampled at once, each to the full context."""


def checks(settings: Settings, work: Work, environment: Mapping[str, str]) -> Iterator[Check]:
    """Look at everything a server with these settings needs. Changes nothing."""
    yield _software()
    yield _sdk()
    try:
        machine = backends.describe(settings.device, settings.dtype)
    except MachineError as error:
        yield Check("device", settings.device, "wrong", str(error))
    else:
        yield _device(settings, machine)
        yield _threads(settings, machine, environment)
        yield _load(machine)
        yield from _models(settings, machine, work)
    yield _disk(settings.folder)
    yield from _plugins(settings)
    yield _port(settings)
    yield _key(settings, environment)


def _software() -> Check:
    names = ("torch", "transformers", "safetensors", "huggingface_hub")
    versions = {name: _version(name) for name in names}
    found = ", ".join(f"{name} {number or 'missing'}" for name, number in versions.items())
    found = f"spindle {version('research-exchange')}, Python {platform.python_version()}, {found}"
    if None in versions.values():
        return Check("software", found, "wrong", "Install what is missing: pip install 'research-exchange[spindle]'.")
    return Check("software", found)


def _sdk() -> Check:
    """The package's metadata tell; it is never imported."""
    found = _version("tinker")
    served = f"{_dotted(OLDEST_SDK)} to {_dotted(NEWEST_SDK)}"
    if found is None:
        return Check("tinker SDK", f"not in {sys.prefix}", "note", f"Scripts need it, in a version from {served}.")
    minor = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if OLDEST_SDK <= minor <= NEWEST_SDK:
        return Check("tinker SDK", f"{found}, which this Spindle serves")
    advice = f"This Spindle serves versions {served}: pip install 'tinker=={_dotted(NEWEST_SDK)}.*' where scripts run."
    return Check("tinker SDK", found, "wrong", advice)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _device(settings: Settings, machine: Machine) -> Check:
    found = f"{machine.device} ({machine.name}), {machine.dtype}"
    if settings.device == "auto" and machine.device == "cpu" and shutil.which("nvidia-smi"):
        advice = f"There is an NVIDIA driver, but torch {_version('torch')} uses no GPU: install a CUDA build of torch."
        return Check("device", found, "note", advice)
    if machine.device == "cpu" and machine.dtype != "float32":
        return Check("device", found, "note", "CPUs are slow in bfloat16: leave dtype at auto, which is float32 there.")
    return Check("device", found)


def _threads(settings: Settings, machine: Machine, environment: Mapping[str, str]) -> Check:
    threads = settings.threads or machine.threads
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY")
    said = [f"{name}={environment[name]}" for name in names if name in environment]
    found = ", ".join([f"{threads} of torch on {machine.cores} cores", *said])
    if threads > machine.cores:
        advice = f"More threads than cores wait for each other: use --threads {machine.cores}."
        return Check("threads", found, "note", advice)
    if environment.get("OMP_WAIT_POLICY", "passive").lower() != "passive":
        advice = "Idle threads that spin take the cores from the client's script: unset OMP_WAIT_POLICY."
        return Check("threads", found, "note", advice)
    return Check("threads", found)


def _load(machine: Machine) -> Check:
    load = os.getloadavg()[0]
    found = f"{load:.1f} running processes over the last minute on {machine.cores} cores"
    if load > machine.cores:
        return Check("load", found, "note", "Others keep the cores busy: everything takes longer, and timings mislead.")
    return Check("load", found)


def _models(settings: Settings, machine: Machine, work: Work) -> Iterator[Check]:
    """Each model with the memory it needs, those before it in memory already."""
    cache = models.cache_directory(settings.folder)
    free = machine.free
    for model in settings.models or (Model(models.full_name(models.DEFAULT_MODEL), None),):
        installed = models.find(models.full_name(model.name), cache) if model.path is None else None
        path = installed.path if installed else model.path
        if path is None:
            yield _missing(model.name, default=not settings.models)
            continue
        try:
            info = models.inspect(model.name, path)
            need = models.estimate(info, work.rank, work.batch_tokens, work.sequences, machine.dtype)
        except ModelError as error:
            yield Check(f"model {model.name}", str(path), "wrong", str(error))
            continue
        yield _memory(info, need, free, work)
        free -= need.total


def _missing(name: str, *, default: bool) -> Check:
    if default:
        return Check(f"model {name}", "not here yet; the first start pulls it")
    advice = f"Fetch it with `spindle models pull {name}`, or name its directory with --model {name}=PATH."
    return Check(f"model {name}", "not installed", "wrong", advice)


def _memory(info: BaseModel, need: models.Memory, free: int, work: Work) -> Check:
    parts = {
        "weights": need.weights,
        "an adapter with its optimizer": need.adapter + need.optimizer,
        f"training {work.batch_tokens} tokens at once": need.activations,
        f"sampling {work.sequences} sequences of {info.context_length} tokens": need.cache,
    }
    listed = ", ".join(f"{size / 1e9:.2f} {part}" for part, size in parts.items() if size)
    found = f"{info.architecture}; {need.total / 1e9:.2f} GB of {max(0, free) / 1e9:.2f} GB free: {listed}"
    name = f"model {info.name}"
    if need.weights > free:
        advice = "Its weights alone do not fit: serve a smaller model, fewer at once, or end what uses the memory."
        return Check(name, found, "wrong", advice)
    if need.total > free:
        return Check(name, found, "wrong", "It does not all fit: end what uses the memory, or serve a smaller model.")
    return Check(name, found)


def _disk(folder: Path) -> Check:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    found = f"{free / 1e9:.1f} GB free in {folder}"
    if not there.is_dir() or not os.access(there, os.W_OK):
        return Check("disk", found, "wrong", f"Nothing can be written in {there}: choose another folder with --data.")
    if free < LEAST_DISK:
        return Check("disk", found, "wrong", "Checkpoints will not fit: make room, or choose another --data.")
    return Check("disk", found)


def _plugins(settings: Settings) -> Iterator[Check]:
    from spindle.backends import plugins

    for path in settings.plugins:
        try:
            (file,) = plugins.load([path]).files
        except PluginError as error:
            yield Check("plugin", str(path), "wrong", str(error))
        else:
            yield Check("plugin", f"{path} brings {', '.join(file.provides)} (sha256 {file.sha256})")


def _port(settings: Settings) -> Check:
    found = f"{settings.host}:{settings.port}"
    try:
        bind(settings.host, settings.port).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE and _answers(settings):
            return Check("port", f"{found}, where a Spindle answers", "note", "A second one needs another --port.")
        return Check("port", f"{found}: {error.strerror}", "wrong", "Choose another --host or --port; port 0 is any.")
    return Check("port", f"{found} is free")


def _answers(settings: Settings) -> bool:
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    try:
        with urllib.request.urlopen(f"http://{host}:{settings.port}/api/v1/healthz", timeout=2) as answer:
            return bool(json.load(answer) == {"status": "ok"})
    except (OSError, ValueError):
        return False


def _key(settings: Settings, environment: Mapping[str, str]) -> Check:
    if settings.keys:
        warning = exposure(settings)
        return Check("keys", f"of {', '.join(settings.keys)}", "ok" if warning is None else "note", warning)
    if "SPINDLE_API_KEY" not in environment and not (settings.folder / "api-key").exists():
        return Check("keys", "none yet; one is made at the first start")
    try:
        api_key(settings.folder, environment)
    except KeyProblemError as error:
        return Check("keys", "one that no client would send", "wrong", str(error))
    return Check("keys", "of SPINDLE_API_KEY" if "SPINDLE_API_KEY" in environment else f"in {settings.folder}/api-key")
