"""`ro-crate-metadata.json`: what is in a bundle, in the words that archives and other tools read (RO-Crate 1.1).

https://www.researchobject.org/ro-crate/specification/1.1/
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from urllib.parse import quote

from research_exchange.bundles.members import Member
from research_exchange.bundles.record import JUDGMENT, RECORD, SPEC, RunRecord
from research_exchange.bundles.text import moment_text, text_of
from research_exchange.documents.json import JsonValue

__all__ = ["CRATE", "crate_text", "member_id"]

CRATE = "ro-crate-metadata.json"

_Entity = dict[str, JsonValue]
_CONFORMS_TO = "https://w3id.org/ro/crate/1.1"
_MEDIA_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".sh": "application/x-sh",
    ".txt": "text/plain",
    ".log": "text/plain",
    ".patch": "text/x-diff",
}
_LICENSE, _EXCHANGE = "#license", "#exchange"
_ACTION = "#run"
_STATES = {True: "http://schema.org/CompletedActionStatus", False: "http://schema.org/ActiveActionStatus"}


def crate_text(record: RunRecord, members: Mapping[str, Member]) -> bytes:
    """The metadata of a bundle whose other members, but for the manifest, are these."""
    names = dict(_descriptions(record))
    files: list[_Entity] = [_file(name, member, names.get(name)) for name, member in members.items()]
    files.append(_file("manifest.json", None, "the size and SHA-256 of every other member"))
    graph: list[JsonValue] = [
        {
            "@id": CRATE,
            "@type": "CreativeWork",
            "about": {"@id": "./"},
            "conformsTo": {"@id": _CONFORMS_TO},
        },
        _root(record, files),
        _action(record, files),
        *files,
        *_software(record),
        {"@id": _EXCHANGE, "@type": "Organization", "name": "The Research Exchange that keeps the run"},
        {
            "@id": _LICENSE,
            "@type": "CreativeWork",
            "name": "No licence stated",
            "description": "The record of this run states no licence for what is in it; ask those who ran it.",
        },
    ]
    return text_of({"@context": f"{_CONFORMS_TO}/context", "@graph": graph})


def member_id(name: str) -> str:
    """The address of a member within the crate."""
    return quote(name)


def _root(record: RunRecord, files: list[_Entity]) -> _Entity:
    return {
        "@id": "./",
        "@type": "Dataset",
        "identifier": record.run.id,
        "name": f"{record.run.id}: {record.spec.title}",
        "description": "A run of an experiment as a Research Exchange keeps it, with all that its judgment is a "
        "function of; `rx verify` recomputes it.",
        "datePublished": moment_text(record.last_moment),
        "license": {"@id": _LICENSE},
        "author": {"@id": _EXCHANGE},
        "publisher": {"@id": _EXCHANGE},
        "hasPart": _references(files),
        "mentions": {"@id": _ACTION},
    }


def _action(record: RunRecord, files: list[_Entity]) -> _Entity:
    ends = [session.ended_at for session in record.sessions if session.ended_at is not None]
    ended = {"endTime": moment_text(max(ends))} if ends else {}
    return {
        "@id": _ACTION,
        "@type": "CreateAction",
        "name": f"Run {record.run.id} of spec {record.run.spec_id}",
        "startTime": moment_text(record.run.created_at),
        **ended,
        "actionStatus": {"@id": _STATES[bool(ends)]},
        "instrument": {"@id": member_id(SPEC)},
        "result": _references(file for file in files if file["@id"] != member_id(SPEC)),
    }


def _references(files: Iterator[_Entity] | list[_Entity]) -> JsonValue:
    return [{"@id": file["@id"]} for file in files]


def _file(name: str, member: Member | None, description: str | None) -> _Entity:
    known: _Entity = {"contentSize": str(member.size), "sha256": member.sha256} if member else {}
    media_type = _MEDIA_TYPES.get(PurePosixPath(name).suffix.lower(), "application/octet-stream")
    return {
        "@id": member_id(name),
        "@type": "File",
        "name": name,
        **({"description": description} if description else {}),
        "encodingFormat": media_type,
        **known,
    }


def _descriptions(record: RunRecord) -> Iterator[tuple[str, str]]:
    yield RECORD, "the record of the run: sessions, receipt times, hashes, refusals"
    yield SPEC, f"the experiment spec {record.run.spec_id} as it was registered"
    yield JUDGMENT, f"what the rules, version {record.judgment.validator_version}, say of the run"
    for session in record.sessions:
        if session.brief is not None:
            yield session.brief, "what a runner was told"
    for update in record.updates:
        yield update.member, f"update {update.sequence} as it was posted"
    for file in record.evidence:
        yield file.member, f"evidence of kind {file.kind}"
    for outcome in record.outcomes:
        yield outcome.member, f"judgment {outcome.number} on record: {outcome.cause}"


def _software(record: RunRecord) -> Iterator[_Entity]:
    for each in record.software:
        yield {
            "@id": f"#{quote(each.name)}",
            "@type": "SoftwareApplication",
            "name": each.name,
            "version": each.version,
        }
