"""What `rx doctor` finds, in a terminal."""

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from research_exchange.terminal.words import literal

if TYPE_CHECKING:
    from research_exchange.cli.checkup import Check

_STYLES = {"ok": "green", "note": "yellow", "wrong": "bold red"}


def check_line(check: "Check") -> Table:
    """One thing that was looked at, and below it what to do."""
    drawn = Table.grid(padding=(0, 1, 0, 0))
    drawn.add_column(width=5)
    drawn.add_column(overflow="fold")
    found = Text.assemble(literal(check.name, "bold"), ": ", literal(check.found))
    drawn.add_row(literal(check.state, _STYLES[check.state]), found)
    if check.advice is not None:
        drawn.add_row("", literal(check.advice))
    return drawn
