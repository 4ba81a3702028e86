"""Hooks and what became of their messages, in a terminal."""

from rich.console import RenderableType
from rich.text import Text

from research_exchange.terminal.words import Json, literal, paged, table, when

_STYLES = {"delivered": "green", "failed": "red"}


def hooks_table(page: Json) -> RenderableType:
    """Whom the Exchange tells."""
    rows = [(hook["id"], hook["kind"], hook["url"] or "", ", ".join(hook["events"]) or "all") for hook in page["hooks"]]
    return paged(table(("hook", "kind", "where", "events"), rows, whole=("hook", "kind")), page, "hooks")


def hook_line(hook: Json) -> Text:
    """A hook that was added, or removed."""
    where = f" at {hook['url']}" if hook["url"] else ""
    said = f"is removed since {when(hook['removed_at'])}" if hook["removed_at"] else "is told"
    return literal(f"{hook['id']}: the {hook['kind']}{where} {said}.")


def deliveries_table(page: Json) -> RenderableType:
    """What a hook was told or is to be told."""
    rows = [
        (
            when(each["at"]),
            each["run"],
            each["event"],
            literal(each["status"], _STYLES.get(each["status"], "")),
            str(each["attempts"]),
            each["detail"] or "",
        )
        for each in page["deliveries"]
    ]
    columns = ("at", "run", "event", "state", "tries", "")
    drawn = table(columns, rows, right=("tries",), whole=("at", "run"))
    return paged(drawn, page, "hook deliveries HOOK")
