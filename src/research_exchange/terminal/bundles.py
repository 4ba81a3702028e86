"""A bundle in a terminal: what was written, and what became of it when it was verified."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from research_exchange.terminal.words import Json, literal, problems, section, table, title_line

_STANDINGS = {
    "verified": ("Verified: every byte is as it was exported, and every judgment comes out again.", "green"),
    "failed": ("Not verified: this is not what an Exchange exported.", "bold red"),
    "other_version": (
        "Every byte is as it was exported; another version of the rules judged it, so its judgments cannot be compared "
        "byte for byte.",
        "yellow",
    ),
}
_WORDS = {
    "same": ("the same", "green"),
    "different": ("another", "bold red"),
    "other_version": ("not compared", "yellow"),
}


def exported_line(written: Json) -> Text:
    """What was written where."""
    return literal(f"{written['run']} is in {written['file']}: {written['size']:,} bytes, sha256 {written['sha256']}")


def report_line(written: Json) -> Text:
    """What was written where."""
    count = sum(file["name"].endswith(".svg") for file in written["files"])
    files = f"report.html, report.md and {count} {'figure' if count == 1 else 'figures'}"
    return literal(f"{written['run']}, {written['verdict']}: {files} are in {written['folder']}")


def verification_report(report: Json) -> RenderableType:
    """The standing of a bundle, each judgment in it made again, and what is not as it was exported."""
    parts: list[RenderableType] = [title_line(report["title"])] if report["title"] else []
    parts += [literal(_extent(report)), literal(*_standing(report))]
    parts += ["", _judgments(report)] if report["judgments"] else []
    parts += section("Not as it was exported", *([problems(report["problems"])] if report["problems"] else []))
    parts += section("Where the judgments differ", *_differences(report))
    lost = (literal(f"  {loss['member']}: {loss['found']}") for loss in report["lost"])
    parts += section("Lost by the Exchange before it exported the run", *lost)
    return Group(*parts)


def _extent(report: Json) -> str:
    what = f"{report['run']} of {report['spec']}: " if report["run"] else ""
    digest = f"; sha256 {report['sha256']}" if report["sha256"] else ""
    return f"{what}{report['members']:,} members with {report['size']:,} bytes{digest}"


def _standing(report: Json) -> tuple[str, str]:
    if report["status"] == "failed" and not report["problems"]:
        return "Not verified: the bundle is whole, and the rules do not say what it says.", "bold red"
    return _STANDINGS[report["status"]]


def _judgments(report: Json) -> Table:
    rows = [
        (
            each["member"],
            each["recorded_at"] or "when it was exported",
            each["validator_version"],
            each["recorded"],
            each["recomputed"],
            literal(*_WORDS[each["standing"]]),
        )
        for each in report["judgments"]
    ]
    columns = ("judgment", "made", "rules", "verdict", f"now (rules {report['rules']})", "comes out as")
    return table(columns, rows, whole=("judgment",))


def _differences(report: Json) -> Iterator[RenderableType]:
    for each in report["judgments"]:
        if each["differences"]:
            yield literal(f"  {each['member']}", "bold")
            yield from (literal(f"  - {difference}") for difference in each["differences"])
