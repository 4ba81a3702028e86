"""What was known about an idea when one of its spec versions was saved (R-001, R-003)."""

from dataclasses import dataclass

from research_exchange.documents.fields import is_text, show
from research_exchange.documents.json import DocumentError, parse

__all__ = ["IdeaContext"]


@dataclass(frozen=True)
class IdeaContext:
    """The snapshot that belongs to a version for ever, whatever becomes of the idea's own text."""

    title: str
    summary: str = ""
    """One paragraph."""
    source: str = ""
    """Where the idea came up, such as the address of a message."""
    triage: str = ""
    """What whoever sorted the idea made of it."""

    @classmethod
    def parse(cls, raw: bytes) -> "IdeaContext":
        """Reads a snapshot: a JSON object with a `title` and, where known, `summary`, `source` and `triage`.

        Raises:
            DocumentError: if the bytes are not strict JSON, not an object, have no title, or hold no text where
                there should be some.
        """
        value = parse(raw)
        if not isinstance(value, dict):
            raise DocumentError(f"An idea is a JSON object; this is {show(value)}.")
        texts = {name: value.get(name) or "" for name in ("title", "summary", "source", "triage")}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise DocumentError(f"The {name} of an idea is text; found {show(text)}.")
        if not is_text(texts["title"]):
            raise DocumentError("An idea has a title, a non-empty string; found nothing.")
        return cls(**{name: text for name, text in texts.items() if isinstance(text, str)})
