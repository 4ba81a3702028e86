"""Takes a brief apart again: its sections, and the examples in them."""

import re
import textwrap

FENCE = re.compile(r"^([ ]*)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def sections(brief: str) -> dict[str, str]:
    """Each section's text under its heading; the opening under ""."""
    parts = re.split(r"^## (.+)$", brief, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def prose(text: str) -> str:
    """On one line, without the marks of Markdown."""
    return " ".join(re.sub(r"[*`]|^\s*[->] |\|", "", text, flags=re.MULTILINE).split())


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks in one language."""
    return [textwrap.dedent(match[3]) for match in FENCE.finditer(text) if match[2] == language]


def filled(example: str) -> str:
    """A JSON example with something in the place of each placeholder."""

    def value(match: re.Match[str]) -> str:
        return {"number": "0.5", "integer": "1", "true": "true", "object": "{}"}[match[1].split()[0]]

    def text(match: re.Match[str]) -> str:
        return {"64 hex": "a" * 64}.get(match[1], match[1].split("|")[0])

    inside = re.sub(r"(?<=\")<([^<>]+)>(?=\")", text, example)
    return re.sub(r"<text or null>", "null", re.sub(r"<((?:number|integer|true|object)[^<>]*)>", value, inside))
