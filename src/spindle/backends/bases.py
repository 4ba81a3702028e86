"""Base models by name, their weights loaded in the background one after the other."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from spindle.backends import probing
from spindle.backends.base import Base
from spindle.backends.contract import BaseModel, UserError
from spindle.backends.layered import LayeredBase
from spindle.backends.models.architectures import is_layered
from spindle.backends.models.directory import read_config


class Bases:
    """The base models of this process. Loading starts at construction; the first use of a model waits for it."""

    def __init__(self, models: Sequence[BaseModel], device: torch.device, dtype: torch.dtype) -> None:
        self.infos = {model.name: model for model in models}
        loader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="load-base-model")
        self._loading: dict[str, Future[Base]] = {
            model.name: loader.submit(_load, model, device, dtype) for model in models
        }
        loader.shutdown(wait=False)

    def check(self, name: str) -> None:
        """Raise `UserError` for a model that is not served; never waits."""
        if name not in self.infos:
            raise UserError(f"base model {name!r} is not served here; choose {', '.join(self.infos)}.")

    def get(self, name: str) -> Base:
        """The model in memory; `UserError` when it is not served or its weights cannot be read."""
        self.check(name)
        try:
            return self._loading[name].result()
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"base model {name!r} could not be loaded from {self.infos[name].path} "
                f"({type(error).__name__}: {error}); copy its files again and restart Spindle."
            ) from error


def _load(model: BaseModel, device: torch.device, dtype: torch.dtype) -> Base:
    if is_layered(model.architecture, read_config(model.name, model.path)):
        return LayeredBase(model, device, dtype)
    return probing.load(model, device, dtype)
