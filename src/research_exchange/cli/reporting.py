"""`rx report`: a run as a page and as Markdown, with plots."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from research_exchange.cli.console import AsJson, UsageProblem, display, replace_file
from research_exchange.cli.exchange import RUN_ID, Address, Data, connected_exchange

if TYPE_CHECKING:
    from research_exchange.cli.bundle_file import BundledRun
    from research_exchange.reports import Report


def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or a bundle that rx export wrote.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Where to write it; by default RUN-report here."),
    ] = None,
    data: Data = None,
    exchange: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write a report on a run: a page that needs nothing else, and Markdown, with plots of everything that it logged.

    It is judged anew, here. The same bundle gives the same bytes each time; files that are there already are replaced.
    """
    from research_exchange.reports import report_of
    from research_exchange.terminal.bundles import report_line

    found = _read(run, data, exchange)
    made = report_of(found.record, found.document, found.contents)
    folder = out or Path(f"{found.record.run.id}-report")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as trouble:
        raise UsageProblem(f"{folder} cannot be made: {trouble.strerror}.") from None
    files = []
    for name, content in _files(made):
        replace_file(folder / name, content)
        files.append({"name": name, "size": len(content), "sha256": sha256(content).hexdigest()})
    written = {
        "run": found.record.run.id,
        "folder": str(folder),
        "verdict": made.banner.headline.lower(),
        "files": files,
    }
    display(written, report_line, as_json)


def _files(made: "Report") -> Iterator[tuple[str, bytes]]:
    from research_exchange.reports import html, markdown

    yield "report.html", html(made)
    yield "report.md", markdown(made)
    yield from ((picture.name, picture.figure.file()) for picture in made.pictures)


def _read(run: str, data: Path | None, url: str | None) -> "BundledRun":
    from research_exchange.cli.bundle_file import fetch_bundle, read_bundle

    if not RUN_ID.fullmatch(run):
        return read_bundle(Path(run))
    with connected_exchange(data, url) as connected:
        return fetch_bundle(connected, run)
