"""A training service with a tiny model that is right now and then, and problems for it."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.research_exchange.runner.running import Rx, rx_beside
from tests.servers import SpindleServer, tiny_model

WORDS = ("apples", "pears", "trains", "trams", "books", "coins", "cakes", "shirts", "miles", "hours")


@pytest.fixture(scope="session")
def spindle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpindleServer]:
    model = writing_numbers(tiny_model(tmp_path_factory.mktemp("model")))
    server = SpindleServer(model, tmp_path_factory.mktemp("spindle") / "data").start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def rx(spindle: SpindleServer) -> Rx:
    return rx_beside(spindle)


@pytest.fixture(scope="session")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GSM8K as to its form: 200 problems of some words, whose answer is 1 or 2."""
    folder, words = tmp_path_factory.mktemp("gsm8k"), random.Random("words")
    for split, size in (("train", 200), ("test", 40)):
        rows = [
            {"question": " and ".join(words.sample(WORDS, 3)), "answer": f"#### {words.choice([1, 2])}"}
            for _ in range(size)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def writing_numbers(directory: Path) -> Path:
    """The tiny model with a liking for 1, 2 and line breaks, so that it is right now and then."""
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(directory)
    small = LlamaForCausalLM.from_pretrained(directory)
    config = small.config
    config.tie_word_embeddings = False
    model = LlamaForCausalLM(config)
    model.load_state_dict({**small.state_dict(), "lm_head.weight": small.lm_head.weight.clone()})
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 1.0
        for text, liking in (("1", 1.5), ("2", 1.5), ("\n", 1.6)):
            model.lm_head.weight[tokenizer.encode(text)[0], 0] = liking
    model.save_pretrained(directory)
    return directory
