"""Saved adapters in memory, to sample from."""

from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from spindle.backends import checkpoints
from spindle.backends.base import Base
from spindle.backends.lora import Adapter

BYTES = 1 << 30
"""How much of lately used adapters is kept; rank 32 on the default model takes 44 MiB."""


class _Loaded(NamedTuple):
    """A saved adapter, and which file it came from."""

    version: tuple[int, int]
    adapter: Adapter
    size: int
    """Bytes of its weights."""


class Snapshots:
    """The saved adapters used lately."""

    def __init__(self) -> None:
        self._loaded: OrderedDict[tuple[str, Path], _Loaded] = OrderedDict()

    def get(self, base: Base, directory: Path) -> Adapter:
        """A saved adapter, from memory while its file is the same one."""
        file = directory / checkpoints.ADAPTER_WEIGHTS
        status = file.stat() if file.is_file() else None
        version = (status.st_ino, status.st_mtime_ns) if status is not None else (0, 0)
        key = (base.info.name, directory)
        loaded = self._loaded.get(key)
        if loaded is None or loaded.version != version:
            adapter = checkpoints.read_adapter(base, directory)
            loaded = _Loaded(version, adapter, sum(weight.nbytes for weight in adapter.parameters().values()))
        self._loaded[key] = loaded
        self._loaded.move_to_end(key)
        while len(self._loaded) > 1 and sum(other.size for other in self._loaded.values()) > BYTES:
            self._loaded.popitem(last=False)
        return loaded.adapter
