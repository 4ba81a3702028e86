"""The sections on what happened and what is left of it: time, evidence, and how to verify it all."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from research_exchange.bundles import JudgmentCheck
from research_exchange.bundles.record import RunRecord
from research_exchange.documents.fields import is_number
from research_exchange.documents.spec import Spec
from research_exchange.judgment import VERSION, Judgment
from research_exchange.presentation.words import clock, number, size, words
from research_exchange.reports.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    Command,
    Facts,
    Paragraph,
    Section,
    Standing,
    Table,
)

__all__ = ["evidence_section", "time_section", "verify_section"]

_COMES_OUT = {"same": ("the same", "good"), "different": ("another", "bad"), "other_version": ("not compared", "care")}
_STATES = {"retained": "good", "partial": "care"}


def time_section(record: RunRecord, spec: Spec, judgment: Judgment) -> Section:
    """How long the sessions took, beside what the spec allows and what was projected."""
    rows: list[list[Cell]] = []
    spent = timedelta()
    for each in record.sessions:
        if each.ended_at is not None:
            spent += each.ended_at - each.started_at
        code = "" if each.exit_code is None else str(each.exit_code)
        end, took = _end(each.started_at, each.ended_at)
        rows.append([Code(each.id), each.runner or "", clock(each.started_at), end, took, code, each.reason or ""])
    head = ("Session", "Runner", "Started (UTC)", "Ended (UTC)", "Took", "Exit code", "Why it ended")
    projected, allowed = judgment.feasibility.get("wall_seconds"), spec.section("budget").get("max_wall_minutes")
    facts = [
        ("Wall time of all sessions", _took(spent)),
        ("Projected", _took(timedelta(seconds=projected)) if is_number(projected) and projected < 1e9 else "unknown"),
        ("Allowed by the spec", f"{number(allowed)} min" if is_number(allowed) else "unknown"),
    ]
    blocks: list[Block] = [Facts(facts)]
    blocks += [Table(head, rows, frozenset({4, 5}))] if rows else [Paragraph("Nobody said when it ran.", "note")]
    if record.cancelled is not None:
        reason = f": {record.cancelled.reason}" if record.cancelled.reason else "."
        blocks.append(Paragraph(f"Cancelled at {clock(record.cancelled.at)} by {record.cancelled.by}{reason}"))
    return Section("time", "Wall time", blocks)


def evidence_section(record: RunRecord, judgment: Judgment) -> Section:
    """Every retained file with its hash, and what a reviewer expects to find among them."""
    rows: list[list[Cell]] = [
        [each.name, each.kind.replace("_", " "), size(each.size), Code(each.sha256), _came(each.update)]
        for each in record.evidence
    ]
    blocks: list[Block] = [Paragraph("No file is retained.", "note")]
    if rows:
        blocks = [Table(("File", "Kind", "Size", "SHA-256", "Came with"), rows, frozenset({2}))]
    lost = [f"{each.member} was lost: {each.found}" for each in record.lost]
    refused = [f"{each.name or '(no name)'} was refused: {' '.join(each.problems)}" for each in record.refused]
    blocks += [Bullets([*lost, *refused])] if lost or refused else []
    expected: list[list[Cell]] = [
        [
            words(each.kind),
            Standing(each.state.value.replace("_", " "), _STATES.get(each.state.value, "none")),
            ", ".join(each.files),
            each.note,
        ]
        for each in judgment.evidence
    ]
    found = Table(("Kind", "State", "Files", "Note"), expected, title="What a reviewer expects to find")
    return Section("evidence", "Evidence", [*blocks, found])


def verify_section(record: RunRecord, sha256: str, checks: Sequence[JudgmentCheck]) -> Section:
    """What anybody can do to believe none of this, and what came out when it was done here."""
    run = record.run.id
    about = (
        "Everything that this report says follows from one file. With it anybody recomputes each judgment on another "
        "machine, offline, byte for byte, and makes this report again."
    )
    rows: list[list[Cell]] = []
    for each in checks:
        comes_out = Standing(*_COMES_OUT[each.standing.value])
        made = each.recorded_at or "at the export"
        rows.append([Code(each.member), made, each.validator_version, each.recorded, each.recomputed, comes_out])
    head = ("Judgment", "Made", "Rules", "Verdict", f"Now (rules {VERSION})", "Comes out as")
    return Section(
        "verify",
        "How to verify",
        [
            Paragraph(about),
            Command(f"rx export {run} {run}.zip\nrx verify {run}.zip\nrx report {run}.zip"),
            Facts(
                [
                    ("SHA-256 of the bundle", Code(sha256)),
                    ("SHA-256 of the spec", Code(record.spec.sha256)),
                    ("Exported by", ", ".join(f"{each.name} {each.version}" for each in record.software)),
                ]
            ),
            Table(head, rows, title="Each judgment, made again for this report"),
            Bullets([f"{each.member}: {line}" for each in checks for line in each.differences]),
        ],
    )


def _end(started: datetime, ended: datetime | None) -> tuple[str, str]:
    return ("", "") if ended is None else (clock(ended), _took(ended - started))


def _took(span: timedelta) -> str:
    seconds = span.total_seconds()
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def _came(update: int | None) -> str:
    return "an upload" if update is None else f"update {update}"
