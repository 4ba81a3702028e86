"""A run as an Exchange exports it: small, with everything that a record can hold."""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any

from research_exchange import judgment as rules
from research_exchange.bundles import Contents, build, documents_of, kept
from research_exchange.bundles.record import (
    CancellationEntry,
    EvidenceEntry,
    IdeaEntry,
    JudgmentEntry,
    OutcomeEntry,
    QueueEntry,
    RefusalEntry,
    RunEntry,
    RunRecord,
    SessionEntry,
    Software,
    SpecEntry,
    UpdateEntry,
)
from research_exchange.documents.run_document import RunDocument
from tests.research_exchange.rules.support import spec_of, vectors

__all__ = ["BASE", "Exported", "export"]

BASE: dict[str, Any] = vectors("runs")["base"]
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
BRIEF = "# What to do\n\nTrain both arms — and nothing else.\n".encode()


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute, microseconds=123)


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


class Exported:
    """A record with the bytes it names."""

    def __init__(self, record: RunRecord, members: Mapping[str, bytes]) -> None:
        self.record = record
        self.members = dict(members)

    @property
    def contents(self) -> Contents:
        return {name: kept(content) for name, content in self.members.items()}

    def packed(self) -> bytes:
        file = io.BytesIO()
        build(self.record, self.contents, file)
        return file.getvalue()


@cache
def export(version: str = rules.VERSION) -> Exported:
    """A run that was judged when it ended, and once more when a file and an update had come late.

    Args:
        version: The version of the rules that the judgments are said to be made with.
    """
    spec = spec_of(BASE["spec"])
    bodies = [*(json.dumps(body).encode() for body in BASE["updates"]), b'{"status": "running", "late": tru']
    members, entries = {"spec.json": spec.raw, f"briefs/{digest(BRIEF)}.md": BRIEF}, []
    for sequence, raw in enumerate(bodies, start=1):
        entry = UpdateEntry(sequence, at(sequence), "ses_0123456789", digest(raw), len(raw))
        members[entry.member] = raw
        entries.append(entry)
    files = list(_evidence(len(bodies) - 1))
    members |= {entry.member: content for entry, content in files}
    evidence = tuple(entry for entry, _ in files)
    record = RunRecord(
        version=1,
        run=RunEntry("run_0123456789", "exp_0123456789", "redo", "run_9876543210", at(0), None),
        spec=SpecEntry(spec.title, spec.sha256, at(-5), "exp_9876543210"),
        idea=IdeaEntry("idea_0123456789", 2, at(-9), "Mara", "Größer ist besser?", None, "https://example.org/1", None),
        sessions=(SessionEntry("ses_0123456789", "local", at(0.5), at(20), 0, "the script ended", digest(BRIEF)),),
        updates=tuple(entries),
        evidence=evidence,
        refused=(RefusalEntry("run.sh", ("R-169 run.sh: expected no credentials, found one in line 1.",), 2, at(2)),),
        outcomes=(),
        judgment=JudgmentEntry(version, ""),
        queue=(QueueEntry(1, at(0.1), at(0.2), "It was asked for.", "admin", at(0.3), "tok_1"),),
        cancelled=CancellationEntry(at(30), "admin", "It had ended anyway."),
        software=(Software("research-exchange", "0.1.0"), Software("Python", "3.11.9")),
    )
    exported = Exported(record, members)
    return judged(exported, [(at(3.5), len(bodies) - 1, len(evidence) - 1), (at(25), len(bodies), len(evidence))])


def _evidence(final: int) -> Iterator[tuple[EvidenceEntry, bytes]]:
    """What came before the first update, and what came after all."""
    for file in [*BASE["evidence"], {"name": "späte notiz.txt", "kind": "report", "content": "late\n", "late": True}]:
        content = file["content"].encode()
        minute, after = (8.0, final + 1) if "late" in file else (0.7, 0)
        entry = EvidenceEntry(
            file["name"], file["kind"], digest(content), len(content), None, after, received_at=at(minute)
        )
        yield entry, content


def judged(exported: Exported, moments: list[tuple[datetime, int, int]]) -> Exported:
    """With an outcome for each moment, from the first so many updates and files, and with the judgment of all."""
    record, members = exported.record, dict(exported.members)
    document = documents_of(record, exported.contents)
    outcomes = []
    for number, (recorded_at, updates, files) in enumerate(moments, start=1):
        raw = judgment_of(replace(document, updates=document.updates[:updates], evidence=document.evidence[:files]))
        version = record.judgment.validator_version
        outcome = OutcomeEntry(number, recorded_at, "asked for", version, digest(raw))
        members[outcome.member] = raw
        outcomes.append(outcome)
    members["judgment.json"] = judgment_of(document)
    judgment = replace(record.judgment, sha256=digest(members["judgment.json"]))
    return Exported(replace(record, outcomes=tuple(outcomes), judgment=judgment), members)


def judgment_of(document: RunDocument) -> bytes:
    judgment = rules.judge(document.spec, document.updates, document.evidence, ended=document.ended)
    return judgment.canonical_bytes()
