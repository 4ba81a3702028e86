"""Executors of training and sampling: the contract they fulfil, and torch behind it.

`contract` says in plain data what an executor does; `load` builds the one that runs in this process. Importing this
package does not import torch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from spindle.backends.allocator import keep_memory
from spindle.backends.contract import Backend, BaseModel, PluginError, UserError
from spindle.backends.machine import Machine, MachineError, choose, describe
from spindle.backends.models import ModelError, inspect

__all__ = [
    "Backend",
    "BaseModel",
    "Machine",
    "MachineError",
    "ModelError",
    "PluginError",
    "UserError",
    "describe",
    "load",
]


def load(
    models: Mapping[str, Path],
    *,
    device: str = "auto",
    dtype: str = "auto",
    threads: int | None = None,
    plugins: Sequence[Path] = (),
) -> Backend:
    """The torch executor for model directories by name. `machine.choose` says what devices and dtypes there are.

    Raises `ModelError` for a model that it cannot serve, `MachineError` for a device that is not here,
    `PluginError` for a plugin file that it cannot use.

    Returns before the weights are in memory; the first use of a model waits for them.
    """
    infos = [inspect(name, path) for name, path in models.items()]
    keep_memory()
    where, numbers = choose(device, dtype)
    import torch

    from spindle.backends.plugins import load as load_plugins
    from spindle.backends.torch_backend import TorchBackend

    if threads is not None:
        torch.set_num_threads(threads)
    return TorchBackend(infos, where, numbers, load_plugins(plugins))
