"""When a completion is over."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer

from spindle.backends.contract import UserError


class Text:
    """Decodes a model's tokens, reading its tokenizer when first needed."""

    def __init__(self, model: Path) -> None:
        self._file = model / "tokenizer.json"

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        if not self._file.is_file():
            raise UserError(
                f"stop strings need the model's {self._file.name}, which it lacks; stop at token ids instead."
            )
        return Tokenizer.from_file(str(self._file))

    def check(self) -> None:
        """Raise `UserError` if the model has no tokenizer."""
        _ = self._tokenizer

    def ends_with_any(self, tokens: Sequence[int], strings: Sequence[str]) -> bool:
        """Whether the last token completed one of `strings`, provided that none was complete before it."""
        # A token stands for at least one byte; four more tokens cover a character that is split between them.
        longest = max(len(string.encode()) for string in strings)
        tail = self._tokenizer.decode(list(tokens[-(longest + 4) :]), skip_special_tokens=False)
        return any(string in tail for string in strings)
