"""A report as Markdown, with its figures in files beside it."""

import re
from collections.abc import Iterator

from research_exchange.presentation.words import clock, printable
from research_exchange.reports.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    Command,
    Facts,
    Paragraph,
    Picture,
    Standing,
    Table,
)
from research_exchange.reports.content import Report

__all__ = ["markdown"]

_MARKUP = re.compile(r"[\\`*_\[\]{}|~#!<>&$^]|(?<=:)/")
"""What means something within a line. A slash behind a colon would make an address a link."""
_AT_THE_START = re.compile(r"^(\d+)?([-+=.)])")
"""What makes a line an item, a heading or a rule."""
_PLAIN_NAME = re.compile(r"[\w.:/-]+", re.ASCII)


def markdown(report: Report) -> bytes:
    """The text, which links each figure by the name that its picture has; the same report gives the same bytes."""
    return ("\n\n".join(_parts(report)) + "\n").encode()


def _parts(report: Report) -> Iterator[str]:
    run, banner = report.record.run, report.banner
    yield f"# {_text(report.spec.title)}"
    redo = f" of `{run.redo_of}`" if run.redo_of else ""
    launch = f"{_text(run.launch_mode)}{redo}, created {clock(run.created_at)} UTC"
    yield f"Run {_cell(Code(run.id))} of spec {_cell(Code(run.spec_id))}, {launch}."
    for name, text in report.claims:
        yield f"**{name}.** {_text(text)}"
    yield f"**{_text(banner.label)}: {_text(banner.headline)}.** {_text(banner.explanation)}"
    if report.judgment.final_update:
        yield f"Reported by the runner: {_text(report.judgment.reported_verdict or 'no verdict')}."
    if banner.objections:
        yield "Also against a definitive verdict:\n\n" + _bullets(Bullets(banner.objections))
    if report.state.summary:
        yield f"The runner’s summary: {_text(report.state.summary)}"
    for section in report.sections:
        yield f"{'#' * section.level} {_text(section.title)}"
        yield from filter(None, map(_block, section.blocks))
    yield (
        f"Judged with rules version {_text(report.judgment.version)} from {len(report.record.updates)} updates and "
        f"{len(report.record.evidence)} files. The same bundle gives this report again, byte for byte."
    )


def _block(block: Block) -> str:
    match block:
        case Paragraph():
            return f"**{_text(block.text)}**" if block.tone == "estimate" else _line(block.text)
        case Bullets():
            return _bullets(block)
        case Command():
            return "\n".join(f"    {line}" for line in printable(block.text).splitlines())
        case Facts():
            return "\n".join(f"- {_line(name)}: {_cell(value)}" for name, value in block.pairs)
        case Picture():
            return f"![{_text(block.figure.label)}]({block.name})"
        case Table():
            return "" if block.is_folded else _table(block)


def _bullets(block: Bullets) -> str:
    return "\n".join(f"- {_line(item)}" for item in block.items)


def _table(table: Table) -> str:
    rule = ["---:" if column in table.numbers else "---" for column in range(len(table.head))]
    rows = [[_cell(name) for name in table.head], rule, *([_cell(value) for value in row] for row in table.rows)]
    title = f"{_line(table.title)}:\n\n" if table.title else ""
    return title + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(value: Cell) -> str:
    match value:
        case Code() if _PLAIN_NAME.fullmatch(value.text):
            return f"`{value.text}`"
        case Code() | Standing():
            return _text(value.text)
    return _text(value)


def _line(text: str) -> str:
    """Text that starts a line."""
    return _AT_THE_START.sub(r"\1\\\2", _text(text))


def _text(text: str) -> str:
    """Text in one line that means nothing but itself."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(printable(text).split()))
