"""Model directories: which ones Spindle can serve, where they come from, and where clients find their tokenizers.

Models live in a cache folder of the Hugging Face layout, Spindle's own. A client that sets `HF_HUB_CACHE` to it finds
the tokenizer of each served model by name within seconds, without a network. Nothing here imports torch until a
pulled model has to be converted.
"""

from spindle.backends.models.cache import add, cache_directory, installed, register_local, remove, serve, size
from spindle.backends.models.directory import SUPPORTED_ARCHITECTURES, InstalledModel, ModelError, inspect
from spindle.backends.models.progress import Progress
from spindle.backends.models.sources import DEFAULT_MODEL, default, pull

__all__ = [
    "DEFAULT_MODEL",
    "SUPPORTED_ARCHITECTURES",
    "InstalledModel",
    "ModelError",
    "Progress",
    "add",
    "cache_directory",
    "default",
    "inspect",
    "installed",
    "pull",
    "register_local",
    "remove",
    "serve",
    "size",
]
