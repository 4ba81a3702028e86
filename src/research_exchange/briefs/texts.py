"""The words of a brief, as Markdown files beside this module, and the names that are filled into them."""

from functools import cache
from importlib.resources import files
from string import Template

__all__ = ["fill", "load"]


class _Text(Template):
    """Names stand as `@{name}`: neither JSON, nor a shell, nor Python writes that."""

    delimiter = "@"
    pattern = r"""
        @(?:
            (?P<escaped>@) |
            (?P<named>(?!)) |
            \{(?P<braced>[a-z_]+)\} |
            (?P<invalid>)
        )
    """  # type: ignore[assignment]


@cache
def load(name: str) -> str:
    """The text `texts/{name}.md`, unfilled and without the line end that closes the file."""
    return (files(__package__) / "texts" / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def fill(text: str, **values: str) -> str:
    """A text with its names filled in; a value is taken as it stands.

    Raises:
        KeyError: if the text uses a name that has no value.
    """
    return _Text(text).substitute(values)
