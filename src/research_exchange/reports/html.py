"""A report as one HTML page: style and figures inside, no script, and a policy that lets it load nothing."""

from base64 import b64encode
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from research_exchange.presentation import words
from research_exchange.presentation.figure import stylesheet
from research_exchange.reports import blocks
from research_exchange.reports.content import Report

__all__ = ["html"]

_HERE = Path(__file__).parent


def html(report: Report) -> bytes:
    """The page; the same report gives the same bytes."""
    style = stylesheet() + (_HERE / "report.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    page = _environment().get_template("report.html")
    return page.render(report=report, style=style, style_hash=f"sha256-{digest}").encode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalized,
    )
    environment.filters["clock"] = words.clock
    environment.tests |= {
        name.lower(): _is_a(getattr(blocks, name))
        for name in ("Bullets", "Code", "Command", "Facts", "Paragraph", "Picture", "Standing", "Table")
    }
    return environment


def _is_a(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind)


def _finalized(value: object) -> object:
    """Text without control characters, which no reader should be steered by; markup of our own as it is."""
    return words.printable(value) if type(value) is str else value
