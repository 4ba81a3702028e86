"""Two runs, or two versions of a spec, side by side in a terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from research_exchange.documents.fields import show
from research_exchange.presentation.words import printable
from research_exchange.terminal.words import VERDICT_STYLES, Json, literal, section, table

_STYLES = {"agree": "bold green", "disagree": "bold red", "undecided": "bold yellow", "other_spec": "bold"}
_ROWS = {
    "same_bytes": "the same, byte for byte",
    "same_values": "equal in every value",
    "different": "different",
    "unknown": "not to be compared: a decision could not be recomputed",
}


def agreement_report(found: Json) -> RenderableType:
    """What two runs agree in, from the verdict down to single items."""
    parts: list[RenderableType] = [literal(found["sentence"], _STYLES[found["standing"]]), "", _verdicts(found)]
    parts += section("Criteria", *(_criterion(pair) for pair in found["criteria"]))
    parts += section("Arms", *([_arms(found)] if found["arms"] else []))
    parts += section("Single items, at equal seeds", *([_items(found)] if found["items"] else []))
    parts += ["", literal(f"The rows behind the decisions are {_ROWS[found['rows']]}.")]
    changes = found["spec_changes"]
    parts += section("What the second spec says otherwise", *([_changes(changes)] if changes else []))
    return Group(*parts)


def diff_report(changes: Sequence[Json]) -> RenderableType:
    """The places where two versions of a spec differ."""
    return _changes(changes) if changes else literal("They say the same.")


def _verdicts(found: Json) -> Table:
    rows = []
    for side in (found["first"], found["second"]):
        verdict = side["verdict"] or "open"
        words = f"{verdict}, withheld" if side["withheld"] else verdict
        style = VERDICT_STYLES.get(verdict, "dim")
        rows.append((literal(side["run"]), literal(words, style), side["reason"] or "", side["basis"] or ""))
    return table(("run", "recorded", "reason", "rests on"), rows, whole=("run",))


def _criterion(pair: Json) -> RenderableType:
    """A line for each run, so that name and intervals stay whole on a narrow terminal."""
    rows = [
        ("    first", *_estimate(pair["first"])),
        ("    second", *_estimate(pair["second"])),
        ("    difference", _signed(pair["difference"]), "", "", ""),
    ]
    columns = ("    run", "effect", "interval", "n", "came out as")
    estimates = table(columns, rows, right=("effect", "n"), whole=("interval",))
    return Group(literal(f"  {pair['id']}, margin {pair['margin']:+g}"), estimates)


def _estimate(estimate: Json) -> tuple[str, str, str, str]:
    interval = f"[{estimate['lower']:+.4f}, {estimate['upper']:+.4f}]"
    return f"{estimate['effect']:+.4f}", interval, f"{estimate['n']:,}", estimate["state"]


def _arms(found: Json) -> Table:
    rows = [
        (f"  {arm['arm']}", arm["metric"], _value(arm["first"]), _value(arm["second"]), _signed(arm["difference"]))
        for arm in found["arms"]
    ]
    return table(("  arm", "metric", "first", "second", "difference"), rows, right=("first", "second", "difference"))


def _items(found: Json) -> Table:
    rows = [
        (
            f"  {counts['arm']}",
            counts["metric"],
            f"{counts['equal']:,} of {counts['compared']:,}",
            f"{counts['higher']:,}",
            f"{counts['lower']:,}",
            f"{counts['first_only']:,} / {counts['second_only']:,}",
        )
        for counts in found["items"]
    ]
    columns = ("  arm", "metric", "equal", "second more", "less", "in one only")
    return table(columns, rows, right=columns[2:], whole=columns[2:3])


def _changes(changes: Sequence[Json]) -> Table:
    rows = [
        (
            literal(f"  {printable(change['path']) or 'the document'}", "bold"),
            change["kind"],
            "" if change["kind"] == "added" else show(change["before"]),
            "" if change["kind"] == "removed" else show(change["after"]),
        )
        for change in changes
    ]
    return table(("  place", "", "before", "after"), rows)


def _value(value: float | None) -> str:
    return "?" if value is None else f"{value:.6g}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.6g}"
