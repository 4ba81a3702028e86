"""A figure as SVG: on a page, or in a file of its own that brings its colours along."""

from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from research_exchange.presentation.words import printable

__all__ = ["Figure", "figure_style", "stylesheet", "svg_text"]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Figure:
    """A drawing with the sentence that says what it shows, for whoever does not see it."""

    width: float
    height: float
    label: str
    body: str
    """SVG elements; whatever text stands in them went through `svg_text`."""

    def __html__(self) -> str:
        """The figure inside a page. Templates take what has this method for markup and leave it as it is."""
        return f"<svg {self._size} aria-label={_quoted(self.label)}>\n{self.body}\n</svg>"

    def file(self) -> bytes:
        """The figure as a file: the same bytes for the same drawing. Its colours follow the reader's light or dark."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {self._size}>\n'
            f"<title>{svg_text(self.label)}</title>\n"
            f"<style>\n{figure_style()}</style>\n"
            f'<rect class="ground" width="100%" height="100%"/>\n'
            f"{self.body}\n</svg>\n"
        ).encode()

    @property
    def _size(self) -> str:
        width, height = f"{self.width:g}", f"{self.height:g}"
        return f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'


def svg_text(text: str) -> str:
    """Text as it may stand in SVG, between tags and inside quotes: no markup, and no character that XML forbids."""
    return escape(printable(text).replace("\n", " "))


@cache
def stylesheet() -> str:
    """Of a page or a report."""
    return figure_style() + _read("style.css")


@cache
def figure_style() -> str:
    """What a figure needs of it."""
    return _read("palette.css") + _read("figures.css")


def _quoted(text: str) -> str:
    return f'"{svg_text(text)}"'


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
