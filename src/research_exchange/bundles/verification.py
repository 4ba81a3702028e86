"""Verifies a bundle: every byte is as it was exported, and the rules say again what they said of it.

What it cannot tell is who made a bundle: whoever forges all of it, hashes included, forges a whole one. Hold the
SHA-256 of the file, which the same run always has, against the one that the Exchange tells.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import file_digest
from pathlib import Path

from research_exchange import judgment as rules
from research_exchange.bundles.integrity import integrity_problems
from research_exchange.bundles.members import Members, broken
from research_exchange.bundles.reading import contents_of, documents_of, open_members, read_record
from research_exchange.bundles.record import RECORD, Loss, RunRecord, Software
from research_exchange.bundles.rejudging import JudgmentCheck, Standing, recheck
from research_exchange.documents.fields import as_mapping
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import DocumentError, JsonValue
from research_exchange.documents.plain import plain

__all__ = ["Verification", "VerificationStatus", "verify"]


class VerificationStatus(StrEnum):
    """What became of a bundle."""

    VERIFIED = "verified"
    """Every byte is as it was exported, and every judgment in it comes out again, byte for byte."""
    FAILED = "failed"
    OTHER_VERSION = "other_version"
    """Every byte is as it was exported; a judgment was made by another version of the rules than the one here."""


@dataclass(frozen=True)
class Verification:
    """The report on a bundle."""

    status: VerificationStatus
    sha256: str | None
    """Of the zip file; None for a folder."""
    members: int
    size: int
    """Of all members, in bytes."""
    run: str | None
    spec: str | None
    title: str | None
    rules: str
    """The version of the rules that judged here."""
    software: tuple[Software, ...]
    """What the Exchange ran on."""
    lost: tuple[Loss, ...]
    """What the Exchange had lost before it exported the run."""
    judgments: tuple[JudgmentCheck, ...]
    problems: tuple[Problem, ...]
    """Everything that is not as it was exported."""

    def to_json(self) -> dict[str, JsonValue]:
        """The report as JSON; a problem also carries its sentence as `text`."""
        return dict(as_mapping(plain(self)))


def verify(path: Path) -> Verification:
    """Verifies a bundle, in a zip file or unpacked in a folder. Nothing in it is executed, and nothing is written.

    Raises:
        NotABundle: if the path has no bundle; the text is one sentence.
        OSError: if it cannot be read.
    """
    with open_members(path) as members:
        report = _report(members)
    return replace(report, sha256=None if path.is_dir() else _sha256_of(path))


def _report(members: Members) -> Verification:
    record: RunRecord | None = None
    judgments: tuple[JudgmentCheck, ...] = ()
    unreadable: list[Problem] = []
    try:
        record = read_record(members)
        contents = contents_of(members)
        judgments = recheck(record, documents_of(record, contents), contents)
    except DocumentError as error:
        unreadable.append(broken(RECORD, "the record of a run, with its spec and updates", f"this: {error}"))
    problems = (*integrity_problems(members, record), *unreadable)
    return Verification(
        status=_status(problems, judgments),
        sha256=None,
        members=len(members.members),
        size=sum(member.size for member in members.members.values()),
        run=record.run.id if record else None,
        spec=record.run.spec_id if record else None,
        title=record.spec.title if record else None,
        rules=rules.VERSION,
        software=record.software if record else (),
        lost=record.lost if record else (),
        judgments=judgments,
        problems=problems,
    )


def _status(problems: tuple[Problem, ...], judgments: tuple[JudgmentCheck, ...]) -> VerificationStatus:
    standings = {check.standing for check in judgments}
    if problems or Standing.DIFFERENT in standings:
        return VerificationStatus.FAILED
    return VerificationStatus.OTHER_VERSION if Standing.OTHER_VERSION in standings else VerificationStatus.VERIFIED


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
