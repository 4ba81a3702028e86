"""The pieces that everything in a terminal is made of. What a spec or a script says is never markup."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from research_exchange.presentation.words import printable

Json = Mapping[str, Any]

VERDICT_STYLES = {"supported": "bold green", "refuted": "bold red", "inconclusive": "bold yellow"}
_LONGEST_TITLE = 300

STATUS_STYLES = {"passed": "green", "failed": "red", "unverified": "yellow", "unknown": "yellow"}


def literal(line: str, style: str = "") -> Text:
    """Text as it stands: neither markup nor a control sequence."""
    return Text(printable(line), style=style)


def title_line(title: str) -> Text:
    """The title of a spec above a report, cut where it goes on and on."""
    return literal(title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…", "bold")


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
    cut: Sequence[str] = (),
) -> Table:
    """A table without lines.

    Args:
        columns: Their headings.
        rows: A cell for each column.
        right: The columns that hold numbers.
        whole: Those that stay unbroken, such as names.
        cut: Those that end with an ellipsis where the line is full, such as titles.
    """
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        drawn.add_column(
            column, overflow="fold", justify="right" if column in right else "left", no_wrap=column in whole
        )
    for row in rows:
        cells = [cell if isinstance(cell, Text) else literal(cell) for cell in row]
        for cell in (cell for column, cell in zip(columns, cells, strict=True) if column in cut):
            cell.no_wrap, cell.overflow = True, "ellipsis"
        drawn.add_row(*cells)
    return drawn


def paged(drawn: RenderableType, page: Json, command: str) -> RenderableType:
    """A page of a list, with how to get the next one where there is one."""
    if page["total"] == 0:
        return literal("There are none.")
    if page["next"] is None:
        return drawn
    return Group(drawn, "", literal(f"{page['total']} in all; the next: rx {command} --offset {page['next']}", "dim"))


def when(moment: str) -> str:
    """A moment as the API writes it, to the minute."""
    return f"{moment[:10]} {moment[11:16]}"


def status(word: str) -> Text:
    """The state of a gate, in its colour."""
    return literal(word.replace("_", " "), STATUS_STYLES.get(word, "dim"))


def section(title: str, *content: RenderableType) -> list[RenderableType]:
    """An empty line, a title and what belongs to it; nothing where there is nothing."""
    return ["", literal(title, "bold yellow"), *content] if content else []


def problems(entries: Sequence[Json]) -> Table:
    """Each problem with its rule, its place, and what was expected and found there."""
    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True)
    drawn.add_column(overflow="fold")
    for entry in entries:
        parts = Table.grid(padding=(0, 2, 0, 0))
        parts.add_column(style="dim", no_wrap=True)
        parts.add_column(overflow="fold")
        for name, value in (("expected", entry["expected"]), ("found", entry["found"]), ("do", entry["action"])):
            parts.add_row(name, literal(value))
        drawn.add_row(literal(f"  {entry['rule']}", "yellow"), Group(literal(entry["path"], "bold"), parts))
    return drawn


def remarks(entries: Iterable[tuple[str, str, str]]) -> Table:
    """Each remark with its rule and, where it has one, its place; what is said of several places is said once."""
    places: dict[tuple[str, str], list[str]] = {}
    for rule, place, text in entries:
        places.setdefault((rule, text), []).append(place)
    drawn = Table.grid(padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True)
    drawn.add_column(overflow="fold")
    for (rule, text), where in places.items():
        lines = [literal(place, "bold") for place in where if place] + [literal(text)]
        drawn.add_row(literal(f"  {rule}", "yellow"), Group(*lines))
    return drawn


def commands(*entries: tuple[str, str]) -> Table:
    """What can be typed, and what it does."""
    drawn = Table.grid(padding=(0, 3))
    drawn.add_column(no_wrap=True)
    drawn.add_column()
    for command, meaning in entries:
        drawn.add_row(literal(f"  {command}", "cyan"), meaning)
    return drawn
