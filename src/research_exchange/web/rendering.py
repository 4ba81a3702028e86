"""How a page is drawn: the templates, what a page may load, and who is reading it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from research_exchange.presentation import words
from research_exchange.server import Exchange
from research_exchange.server.dependencies import ExchangeService
from research_exchange.server.guards import BrowserSession
from research_exchange.server.sign_in import Session
from research_exchange.statistics import UNITS
from research_exchange.web.run import RunPages
from research_exchange.web.wording import changed_passages

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""What a page may load: its own stylesheet and script, nothing inline and nothing from elsewhere."""

_FILTERS = ("number", "signed", "size", "short", "clock", "words", "value_text", "document")


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in _FILTERS:
        environment.filters[name] = getattr(words, name)
    environment.globals["unit_meanings"] = UNITS
    environment.globals["changed_passages"] = changed_passages
    return environment


_TEMPLATES = _environment()


@dataclass(frozen=True)
class Visit:
    """A request for a page: the services to ask, and the browser's session when somebody has signed in with it."""

    exchange: Exchange
    session: Session | None

    def page(self, template: str, *, status: int = 200, **content: object) -> HTMLResponse:
        html = _TEMPLATES.get_template(template).render(status=status, session=self.session, **content)
        return HTMLResponse(html, status, {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-store"})

    def refusal(self, status: int, sentence: str) -> HTMLResponse:
        """A page that says in a sentence why there is no other."""
        return self.page("error.html", status=status, sentence=sentence)


def _visit(exchange: ExchangeService, session: BrowserSession) -> Visit:
    return Visit(exchange, session)


Visiting = Annotated[Visit, Depends(_visit)]


def _run_pages(request: Request) -> RunPages:
    run_pages = request.app.state.run_pages
    assert isinstance(run_pages, RunPages)
    return run_pages


RunPagesService = Annotated[RunPages, Depends(_run_pages)]


@dataclass(frozen=True)
class Span:
    """Which part of a list a page shows."""

    offset: int
    limit: int
    total: int

    @property
    def newer(self) -> int | None:
        """The offset of the page before this one."""
        return max(0, self.offset - self.limit) if self.offset else None

    @property
    def older(self) -> int | None:
        following = self.offset + self.limit
        return following if following < self.total else None
