"""What became of a spool, in a terminal."""

from rich.console import Group, RenderableType

from research_exchange.terminal.words import Json, literal


def sent_report(report: Json) -> RenderableType:
    """For each run how much was sent, and what was refused."""
    if not report["sent"]:
        return literal("Nothing waits there.")
    lines: list[RenderableType] = []
    for each in report["sent"]:
        count = each["reports"]
        lines.append(literal(f"{each['run']}: {count} report{'s' if count > 1 else ''} sent."))
        lines += [literal(f"  refused: {reason}", "red") for reason in each["refused"]]
    return Group(*lines)
