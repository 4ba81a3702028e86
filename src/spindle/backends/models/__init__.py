"""Model directories: which ones Spindle can serve, where they come from, and where clients find their tokenizers.

Models live in a cache folder of the Hugging Face layout, Spindle's own. A client that sets `HF_HUB_CACHE` to it finds
the tokenizer of each served model by name within seconds, without a network. Nothing here imports torch until a
pulled model has to be converted.
"""

from spindle.backends.models.cache import (
    add,
    cache_directory,
    find,
    has_tokenizer,
    installed,
    register_local,
    remove,
    serve,
    size,
)
from spindle.backends.models.directory import InstalledModel, ModelError, inspect
from spindle.backends.models.memory import Memory, estimate
from spindle.backends.models.progress import Progress
from spindle.backends.models.sources import DEFAULT_MODEL, default, full_name, pull

__all__ = [
    "DEFAULT_MODEL",
    "InstalledModel",
    "Memory",
    "ModelError",
    "Progress",
    "add",
    "cache_directory",
    "default",
    "estimate",
    "find",
    "full_name",
    "has_tokenizer",
    "inspect",
    "installed",
    "pull",
    "register_local",
    "remove",
    "serve",
    "size",
]
