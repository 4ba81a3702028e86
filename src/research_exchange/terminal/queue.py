"""What waits for a worker."""

from rich.console import RenderableType

from research_exchange.terminal.words import Json, literal, paged, table, when

__all__ = ["queue_table"]


def queue_table(page: Json) -> RenderableType:
    """The next run first, each with why it waits."""
    if page["total"] == 0:
        return literal("Nothing waits.")
    rows = [(each["run"], when(each["queued_at"]), each["waits"], each["title"]) for each in page["queue"]]
    return paged(table(("run", "queued", "why it waits", "title"), rows, whole=("run", "queued")), page, "queue")
