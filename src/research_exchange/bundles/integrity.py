"""Whether every byte of a bundle is as it was exported: each is part of a member, and each member is hashed twice over.

The manifest lists size and hash of every member, and the record of the run has the hash of each document once more.
Both have one text only, which is written again here and compared.
"""

from collections.abc import Iterator, Mapping

from research_exchange.bundles.build import MANIFEST, manifest_text
from research_exchange.bundles.crate import CRATE, member_id
from research_exchange.bundles.members import Member, Members, broken, read_text
from research_exchange.bundles.record import RECORD, RunRecord
from research_exchange.bundles.text import record_text
from research_exchange.documents.fields import as_list, as_mapping, is_sha256, show
from research_exchange.documents.gates import Problem
from research_exchange.documents.json import DocumentError, JsonValue, parse
from research_exchange.evidence import MAX_FILE_BYTES, MAX_FILES, MAX_RUN_BYTES

__all__ = ["integrity_problems"]

_SPEAKING_OF_OTHERS = (RECORD, CRATE, MANIFEST)


def integrity_problems(members: Members, record: RunRecord | None) -> tuple[Problem, ...]:
    """What is not as it was exported, each member once; `record` is None where it could not be read."""
    found = [*members.problems, *_manifest_problems(members), *_crate_problems(members)]
    if record is not None:
        found += [*_record_problems(members, record), *_cap_problems(record)]
    first: dict[str, Problem] = {}
    for problem in found:
        first.setdefault(problem.path, problem)
    return tuple(first.values())


def _manifest_problems(members: Members) -> Iterator[Problem]:
    others = {name: member for name, member in members.members.items() if name != MANIFEST}
    try:
        text = read_text(members, MANIFEST)
        if text == manifest_text(others):
            return
        listed = as_mapping(as_mapping(parse(text)).get("members"))
    except DocumentError as error:
        yield broken(MANIFEST, "the list of members", f"this: {error}")
        return
    differing = list(_differing(others, listed))
    yield from differing or [broken(MANIFEST, "the text that `rx export` writes", "another")]


def _differing(members: Mapping[str, Member], listed: Mapping[str, JsonValue]) -> Iterator[Problem]:
    """The members that are not as a list says."""
    for name, entry in listed.items():
        expected = as_mapping(entry).get("sha256")
        if name not in members:
            yield broken(name, f"the member that {MANIFEST} lists", "nothing")
        elif expected != members[name].sha256:
            wanted = expected if is_sha256(expected) else show(expected)
            yield broken(name, f"bytes with the hash {wanted}", f"others, with the hash {members[name].sha256}")
        elif as_mapping(entry).get("size") != members[name].size:
            found = f"{members[name].size} bytes"
            yield broken(f"{MANIFEST}, {name}", f"{show(as_mapping(entry).get('size'))} bytes", found)
    for name in members:
        if name not in listed:
            yield broken(name, f"no such member: {MANIFEST} does not list it", "one")


def _record_problems(members: Members, record: RunRecord) -> Iterator[Problem]:
    if members.read(RECORD) != record_text(record):
        yield broken(RECORD, "the text that `rx export` writes", "another")
    hashes = record.hashes()
    for name, sha256 in hashes.items():
        member = members.members.get(name)
        if member is None:
            yield broken(name, f"the member that {RECORD} names", "nothing")
        elif member.sha256 != sha256:
            yield broken(name, f"bytes with the hash {sha256}", f"others, with the hash {member.sha256}")
    for name in members.members:
        if name not in hashes and name not in _SPEAKING_OF_OTHERS:
            yield broken(name, f"no such member: {RECORD} does not name it", "one")
    for entry in record.posted:
        member = members.members.get(entry.member)
        if member is not None and member.size != entry.size:
            yield broken(f"{RECORD}, {entry.member}", f"its size, {member.size}", f"{entry.size}")


def _cap_problems(record: RunRecord) -> Iterator[Problem]:
    """More than any run may retain (R-163)."""
    total = sum(file.size for file in record.evidence)
    largest = max((file.size for file in record.evidence), default=0)
    checks = (
        ("bytes in a file", largest, MAX_FILE_BYTES),
        ("files", len(record.evidence), MAX_FILES),
        ("bytes of evidence", total, MAX_RUN_BYTES),
    )
    for what, count, most in checks:
        if count > most:
            yield Problem("R-163", f"{RECORD}, {what}", f"at most {most}", f"{count}", "Export the run again.")


def _crate_problems(members: Members) -> Iterator[Problem]:
    """The metadata for other tools speak of exactly these members."""
    try:
        graph = as_list(as_mapping(parse(read_text(members, CRATE))).get("@graph"))
    except DocumentError as error:
        yield broken(CRATE, "the RO-Crate metadata", f"this: {error}")
        return
    root = next((as_mapping(each) for each in graph if as_mapping(each).get("@id") == "./"), {})
    spoken_of = {as_mapping(part).get("@id") for part in as_list(root.get("hasPart"))}
    if spoken_of != {member_id(name) for name in members.members if name != CRATE}:
        yield broken(CRATE, "the members as parts of the crate", "others")
