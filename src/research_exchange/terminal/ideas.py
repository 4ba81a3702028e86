"""Ideas and the versions made from them, in a terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from research_exchange.terminal.words import Json, literal, paged, section, table, title_line, when

_TEXTS = (("Source", "source_url"), ("Summary", "summary"), ("Triage", "triage"))


def ideas_table(page: Json) -> RenderableType:
    """The ideas on a page of them."""
    rows = [(idea["id"], when(idea["created_at"]), idea["title"], idea["triage"] or "") for idea in page["ideas"]]
    return paged(
        table(("idea", "saved", "title", "triage"), rows, whole=("idea", "saved"), cut=("title", "triage")),
        page,
        "ideas",
    )


def idea_report(idea: Json) -> RenderableType:
    """What an idea says now, what it said before, and what was made from it."""
    parts: list[RenderableType] = [
        title_line(idea["title"]),
        literal(f"{idea['id']}, saved {when(idea['created_at'])} by {idea['created_by']}"),
        *(literal(f"{name}: {idea[key]}") for name, key in _TEXTS if idea[key]),
    ]
    said = [_change(before, after) for before, after in zip(idea["snapshots"], idea["snapshots"][1:], strict=False)]
    parts += section("Changed", *([table(("at", "by", "what"), said, whole=("at", "by"))] if said else []))
    parts += _earlier(idea["snapshots_total"] - len(idea["snapshots"]), f"GET /api/ideas/{idea['id']}/snapshots")
    parts += section("Versions", *([_versions(idea["versions"])] if idea["versions"] else []))
    parts += _earlier(idea["versions_total"] - len(idea["versions"]), f"rx specs --idea {idea['id']}")
    return Group(*parts)


def saved_line(about: Json) -> Text:
    """The version that was saved, and where it comes from."""
    origin = f" of {about['idea']}" if about["idea"] else ""
    made_from = f", made from {about['parent']}" if about["parent"] else ""
    return literal(f"{about['id']}{origin}{made_from}: {about['title']}")


def specs_table(page: Json) -> RenderableType:
    """The spec versions on a page of them."""
    return paged(_versions(page["specs"]), page, "specs")


def _earlier(number: int, address: str) -> list[RenderableType]:
    """How many came before those that are shown, and what shows them."""
    return [literal(f"{number} more came before these: {address}", "dim")] if number else []


def _change(before: Json, after: Json) -> tuple[str, str, str]:
    names = [name for name in ("title", "summary", "source_url", "triage") if before[name] != after[name]]
    return when(after["at"]), after["author"], ", ".join(names).replace("_url", "") or "nothing"


def _versions(specs: Sequence[Json]) -> Table:
    rows = [(spec["id"], when(spec["created_at"]), spec["title"]) for spec in specs]
    return table(("version", "saved", "title"), rows, whole=("version", "saved"), cut=("title",))
