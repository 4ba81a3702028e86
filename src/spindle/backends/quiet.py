"""Keeping `transformers` from talking to the terminal of whoever runs Spindle."""

import contextlib
import functools
import threading
import warnings
from collections.abc import Iterator

_settings = threading.RLock()
"""The library's settings are global: one thread changes them at a time."""


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars, no advice, no warnings while loading or converting a model; settings return afterwards."""
    from tqdm import tqdm
    from transformers import modeling_gguf_pytorch_utils as gguf_loading
    from transformers.utils import logging

    with _settings, warnings.catch_warnings():
        verbosity = logging.get_verbosity()
        bars = logging.is_progress_bar_enabled()
        gguf_bar = gguf_loading.tqdm
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        gguf_loading.tqdm = functools.partial(tqdm, disable=True)
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            gguf_loading.tqdm = gguf_bar
            logging.set_verbosity(verbosity)
            if bars:
                logging.enable_progress_bar()
