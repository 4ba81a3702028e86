"""What waits for a worker."""

from collections.abc import Sequence

from rich.console import RenderableType

from research_exchange.terminal.words import Json, literal, table, when

__all__ = ["queue_table"]


def queue_table(waiting: Sequence[Json]) -> RenderableType:
    """The next run first, each with why it waits."""
    if not waiting:
        return literal("Nothing waits.")
    rows = [(each["run"], when(each["queued_at"]), each["waits"], each["title"]) for each in waiting]
    return table(("run", "queued", "why it waits", "title"), rows, whole=("run", "queued"))
