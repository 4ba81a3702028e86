"""A real `spindle serve` process with a tiny model, for tests that talk to one."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

MODEL = "test/tiny-llama"
"""The name that the tiny model is served under."""


def tiny_model(directory: Path) -> Path:
    """A two-layer Llama with random weights and a byte-level tokenizer, in the Hugging Face layout."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from transformers.utils import logging

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<|end|>": 0} | {letter: index + 1 for index, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(directory)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    logging.disable_progress_bar()
    LlamaForCausalLM(config).save_pretrained(directory)
    return directory


@dataclass
class SpindleServer:
    """One server process; `start` it again on the same port after `kill`."""

    model: Path
    data: Path
    port: int = 0
    name: str = MODEL
    """What the model is served as."""
    options: tuple[str, ...] = ()
    """More of `spindle serve`."""
    exports: dict[str, str] = field(default_factory=dict)
    """What the server printed to be exported."""
    process: "subprocess.Popen[str] | None" = None
    status: int | None = None
    """How the last process ended."""

    @property
    def url(self) -> str:
        return self.exports["TINKER_BASE_URL"]

    @property
    def key(self) -> str:
        return self.exports["TINKER_API_KEY"]

    @property
    def log(self) -> str:
        return (self.data.parent / "spindle.log").read_text()

    def start(self, *, port: int | None = None) -> "SpindleServer":
        """Start and wait until requests are answered."""
        command = [sys.executable, "-m", "spindle.cli", "serve", "--model", f"{self.name}={self.model}"]
        command += ["--port", str(self.port if port is None else port), "--data", str(self.data), *self.options]
        self.data.mkdir(parents=True, exist_ok=True)
        with (self.data.parent / "spindle.log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=_environment())
        assert self.process.stdout is not None
        for line in self.process.stdout:
            name, _, value = shlex.split(line)[1].partition("=")
            self.exports[name] = value
            if name == "HF_HUB_CACHE":
                break
        else:
            raise AssertionError(f"spindle serve ended with {self.process.wait()}: {self.log}")
        self.port = int(self.url.rpartition(":")[2])
        assert httpx.get(f"{self.url}/api/v1/healthz").json() == {"status": "ok"}
        return self

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> float:
        """Ask it to stop; returns the seconds that took."""
        begun = time.monotonic()
        self._end(signal.SIGTERM)
        return time.monotonic() - begun

    def _end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        assert self.process.stdout is not None
        self.process.send_signal(number)
        self.process.wait(30)
        self.process.stdout.close()
        self.status, self.process = self.process.returncode, None

    def client_environment(self) -> Mapping[str, str]:
        """The environment of a script that uses this server."""
        return _environment() | self.exports | {"TINKER_TELEMETRY": "0"}


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TINKER_", "SPINDLE_", "HF_"))}
    return kept | {"OMP_NUM_THREADS": "2"}
