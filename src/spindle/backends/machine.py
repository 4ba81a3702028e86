"""Where the work runs: which device, in which type of numbers, with how much memory left."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from spindle.backends.threads import repeat_products, share_cores

if TYPE_CHECKING:
    import torch

_CGROUP = Path("/sys/fs/cgroup")


class MachineError(Exception):
    """A device that this machine does not have; one sentence."""


@dataclass(frozen=True)
class Machine:
    """The device that was chosen, as torch sees it."""

    device: str
    """As torch names it: `cpu`, `cuda:0`."""
    name: str
    dtype: str
    threads: int
    cores: int
    """Those this process may use."""
    memory: int
    """Bytes that the device has for this process."""
    free: int
    """Bytes of them that nothing uses now."""

    def __str__(self) -> str:
        where = f"{self.threads} threads" if self.device == "cpu" else self.name
        return f"{self.device} ({where}), {self.dtype}"


def choose(device: str, dtype: str) -> "tuple[torch.device, torch.dtype]":
    """What `auto`, `cpu`, `cuda` or `cuda:N`, and `auto`, `float32` or `bfloat16` stand for here.

    `auto` is the first GPU where there is one; on a GPU bfloat16, on a CPU float32. Raises `MachineError`.
    """
    share_cores()
    repeat_products()
    import torch

    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    chosen = torch.device(("cuda" if there else "cpu") if device == "auto" else device)
    if chosen.type == "cuda" and (chosen.index or 0) >= there:
        raise MachineError(
            f"Device {device} is not here: torch {torch.__version__} finds {there or 'no'} CUDA GPUs; "
            "choose cpu, or install the driver and a CUDA build of torch."
        )
    if dtype == "auto":
        return chosen, torch.bfloat16 if chosen.type == "cuda" else torch.float32
    return chosen, getattr(torch, dtype)


def describe(device: str, dtype: str) -> Machine:
    """The machine as `choose` would use it now. Raises `MachineError`."""
    chosen, numbers = choose(device, dtype)
    import torch

    if chosen.type == "cuda":
        index = chosen.index or 0
        name, (free, memory) = torch.cuda.get_device_name(index), torch.cuda.mem_get_info(index)
        place = f"cuda:{index}"
    else:
        name, place = _processor(), "cpu"
        memory, free = _main_memory()
    return Machine(
        device=place,
        name=name,
        dtype=str(numbers).removeprefix("torch."),
        threads=torch.get_num_threads(),
        cores=cores(),
        memory=memory,
        free=free,
    )


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _main_memory() -> tuple[int, int]:
    """Bytes in all and free, within what a container may take."""
    machine = psutil.virtual_memory()
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text()) - _idle_file_pages()
    except (OSError, ValueError):  # no container, or one without a limit
        return machine.total, machine.available
    return min(machine.total, limit), max(0, min(machine.available, limit - used))


def _idle_file_pages() -> int:
    """Bytes of cached files, which make room when memory is needed."""
    pages = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    return int(pages.get("inactive_file", 0))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "CPU"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "CPU")
