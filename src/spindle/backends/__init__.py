"""Executors of training and sampling: the contract they fulfil, and torch behind it.

`contract` says in plain data what an executor does; `load` builds the one that runs in this process. Importing this
package does not import torch.
"""

from collections.abc import Mapping
from pathlib import Path

from spindle.backends.contract import Backend, BaseModel, UserError
from spindle.backends.models import ModelError, inspect
from spindle.backends.threads import share_cores

__all__ = ["Backend", "BaseModel", "ModelError", "UserError", "load"]


def load(models: Mapping[str, Path], *, device: str = "cpu", threads: int | None = None) -> Backend:
    """The torch executor for model directories by name. Raises `ModelError` for one that it cannot serve.

    Returns before the weights are in memory; the first use of a model waits for them.
    """
    infos = [inspect(name, path) for name, path in models.items()]
    share_cores()
    import torch

    from spindle.backends.torch_backend import TorchBackend

    if threads is not None:
        torch.set_num_threads(threads)
    return TorchBackend(infos, torch.device(device))
