"""One posted update: raw bytes that are kept whatever they say (R-007, R-06A)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256

from research_exchange.documents.fields import show
from research_exchange.documents.json import DocumentError, JsonValue, parse

__all__ = ["StoredUpdate"]


@dataclass(frozen=True)
class StoredUpdate:
    """An update as the Exchange received it."""

    sequence: int
    """1, 2, 3, … in order of receipt within the run."""
    received_at: datetime
    """UTC, aware."""
    raw: bytes
    session: str | None = None

    @cached_property
    def sha256(self) -> str:
        return sha256(self.raw).hexdigest()

    @property
    def body(self) -> Mapping[str, JsonValue] | None:
        """The JSON object, or None where the bytes are malformed."""
        parsed = self._parsed
        return None if isinstance(parsed, str) else parsed

    @property
    def malformed(self) -> str | None:
        """One sentence on why the bytes are not an update; None where they are one."""
        parsed = self._parsed
        return parsed if isinstance(parsed, str) else None

    def sharing(self, other: "StoredUpdate") -> "StoredUpdate":
        """This update, which has the bytes of another one: what was read of them there is not read again."""
        assert self.raw == other.raw, "the bytes are the same"
        vars(self).update({name: value for name, value in vars(other).items() if name in _OF_BYTES_ALONE})
        return self

    @cached_property
    def _parsed(self) -> Mapping[str, JsonValue] | str:
        try:
            value = parse(self.raw)
        except DocumentError as error:
            return str(error)
        return value if isinstance(value, dict) else f"An update is a JSON object; this is {show(value)}."


_OF_BYTES_ALONE = ("sha256", "_parsed")
