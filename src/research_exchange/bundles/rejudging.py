"""Judges the run of a bundle again, and holds what comes out against the judgments in it, byte for byte."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from research_exchange import judgment as rules
from research_exchange.bundles.members import Contents
from research_exchange.bundles.moments import moments
from research_exchange.bundles.record import JUDGMENT, OutcomeEntry, RunRecord
from research_exchange.bundles.text import moment_text
from research_exchange.documents.differences import differences
from research_exchange.documents.fields import as_mapping, is_whole
from research_exchange.documents.json import DocumentError, JsonValue, parse
from research_exchange.documents.run_document import RunDocument

__all__ = ["JudgmentCheck", "Standing", "recheck"]

_MOST_DIFFERENCES = 10


class Standing(StrEnum):
    """What became of a judgment when it was made again."""

    SAME = "same"
    """Byte for byte."""
    DIFFERENT = "different"
    OTHER_VERSION = "other_version"
    """It was made by another version of the rules, so its bytes cannot be expected."""


@dataclass(frozen=True)
class JudgmentCheck:
    """One judgment of a bundle, made again."""

    member: str
    recorded_at: str | None
    """None for the one that was made when the run was exported."""
    validator_version: str
    """Of the rules that made it; those here are `judgment.VERSION`."""
    standing: Standing
    recorded: str
    """Its verdict, in words."""
    recomputed: str
    """The verdict now, in words."""
    differences: tuple[str, ...] = ()
    """Where the two differ, the first few."""


def recheck(record: RunRecord, document: RunDocument, contents: Contents) -> tuple[JudgmentCheck, ...]:
    """Makes every judgment of a bundle again: the one of its export, and each on record from what was there then."""
    again = _Again()
    checks = []
    if JUDGMENT in contents:
        now = [document]
        checks.append(_check(JUDGMENT, None, record.judgment.validator_version, contents[JUDGMENT](), iter(now), again))
    for outcome in record.outcomes:
        if outcome.member in contents:
            raw = contents[outcome.member]()
            when = moment_text(outcome.recorded_at)
            then = _moments(record, document, outcome, raw)
            checks.append(_check(outcome.member, when, outcome.validator_version, raw, then, again))
    return tuple(checks)


class _Again:
    """Judges documents, the same ones once."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int, str | None], bytes] = {}

    def judge(self, document: RunDocument) -> bytes:
        key = len(document.updates), len(document.evidence), document.ended
        if key not in self._made:
            made = rules.judge(document.spec, document.updates, document.evidence, ended=document.ended)
            self._made[key] = made.canonical_bytes()
        return self._made[key]


def _moments(record: RunRecord, document: RunDocument, outcome: OutcomeEntry, recorded: bytes) -> Iterator[RunDocument]:
    through = _read(recorded).get("through_update")
    return moments(record, document, outcome, through if is_whole(through) else len(document.updates))


def _check(
    member: str, when: str | None, version: str, recorded: bytes, tried: Iterator[RunDocument], again: _Again
) -> JudgmentCheck:
    recomputed = again.judge(next(tried))
    if version != rules.VERSION:
        standing = Standing.OTHER_VERSION
    elif recorded == recomputed or any(again.judge(document) == recorded for document in tried):
        standing, recomputed = Standing.SAME, recorded
    else:
        standing = Standing.DIFFERENT
    before, after = _read(recorded), _read(recomputed)
    found = [str(change) for change in differences(before, after)]
    if standing is Standing.DIFFERENT and not found:
        found = ["the same judgment, written otherwise"]
    return JudgmentCheck(
        member=member,
        recorded_at=when,
        validator_version=version,
        standing=standing,
        recorded=_verdict(before),
        recomputed=_verdict(after),
        differences=tuple(found[:_MOST_DIFFERENCES]),
    )


def _read(judgment: bytes) -> Mapping[str, JsonValue]:
    try:
        return as_mapping(parse(judgment))
    except DocumentError:
        return {}


def _verdict(judgment: Mapping[str, JsonValue]) -> str:
    """`supported`, `inconclusive, withheld`, `open`."""
    verdict = judgment.get("recorded_verdict")
    words = verdict if isinstance(verdict, str) else "open" if judgment else "unreadable"
    return f"{words}, withheld" if judgment.get("withheld") is True else words
