"""Keeping `transformers` from talking to the terminal of whoever runs Spindle."""

import contextlib
import functools
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars, no advice, no warnings while loading or converting a model; settings return afterwards."""
    from tqdm import tqdm
    from transformers import modeling_gguf_pytorch_utils as gguf_loading
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    gguf_bar, gguf_loading.tqdm = gguf_loading.tqdm, functools.partial(tqdm, disable=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        gguf_loading.tqdm = gguf_bar
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
