"""A bundle is believed only where every byte of it is as it was exported."""

import io
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import research_exchange
from research_exchange.bundles import NotABundle, Standing, Verification, VerificationStatus, verify
from research_exchange.bundles.archive import archive_chunks
from research_exchange.judgment import VERSION
from tests.research_exchange.bundles.exported import Exported, digest, export

Packed = Callable[[Exported], Path]
Unpacked = Callable[[], Path]


@pytest.fixture
def packed(tmp_path: Path) -> Packed:
    def _packed(exported: Exported) -> Path:
        path = tmp_path / "bundle.zip"
        path.write_bytes(exported.packed())
        return path

    return _packed


@pytest.fixture
def folder(packed: Packed, tmp_path: Path) -> Path:
    with zipfile.ZipFile(packed(export())) as archive:
        archive.extractall(tmp_path / "bundle")
    return tmp_path / "bundle"


def named(report: Verification) -> list[str]:
    return [problem.path for problem in report.problems]


def test_a_bundle_is_verified_packed_and_unpacked(packed: Packed, folder: Path) -> None:
    whole, laid_out = verify(packed(export())), verify(folder)
    assert whole.status is laid_out.status is VerificationStatus.VERIFIED
    assert whole.problems == ()
    assert [check.standing for check in whole.judgments] == 3 * [Standing.SAME]
    assert (whole.run, whole.rules, whole.sha256) == ("run_0123456789", VERSION, digest(export().packed()))
    assert replace(whole, sha256=None) == laid_out


def test_no_byte_of_the_archive_can_be_changed(tmp_path: Path) -> None:
    """Bytes outside the members, where a zip file has room to hide something, and inside them."""
    path, whole = tmp_path / "bundle.zip", export().packed()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        inside = {place for name in archive.namelist() for place in _places(whole, archive.read(name))}
    outside, believed = sorted(set(range(len(whole))) - inside), []
    chosen = [*outside[:: len(outside) // 150], *random.Random(1).sample(sorted(inside), 50)]
    for place in chosen:
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            report = verify(path)
        except NotABundle:
            assert place < 4
        else:
            if report.status is not VerificationStatus.FAILED or not report.problems:
                believed.append(place)
    assert believed == []


def _places(whole: bytes, content: bytes) -> range:
    start = whole.index(content)
    return range(start, start + len(content))


def test_a_changed_byte_of_a_member_is_named(folder: Path) -> None:
    for member in sorted(path for path in folder.rglob("*") if path.is_file()):
        kept, name = member.read_bytes(), member.relative_to(folder).as_posix()
        for place in {0, len(kept) // 2, len(kept) - 1}:
            member.write_bytes(kept[:place] + bytes([kept[place] ^ 1]) + kept[place + 1 :])
            report = verify(folder)
            assert report.status is VerificationStatus.FAILED
            assert any(name in str(problem) for problem in report.problems), (name, place, report.problems)
        member.write_bytes(kept)
    assert verify(folder).status is VerificationStatus.VERIFIED


@pytest.mark.parametrize(
    "member", ["spec.json", "updates/000002.json", "evidence/predictions.jsonl", "judgment.json", "manifest.json"]
)
def test_a_missing_member_is_named(folder: Path, member: str) -> None:
    (folder / member).unlink()
    report = verify(folder)
    assert report.status is VerificationStatus.FAILED
    assert member in named(report)


def test_what_does_not_belong_is_named_and_no_link_is_followed(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not to be read")
    (folder / "evidence" / "more.txt").write_text("more")
    (folder / "evidence" / "link.txt").symlink_to(secret)
    (folder / "updates" / "deep" / "deeper").mkdir(parents=True)
    os.mkfifo(folder / "pipe")
    report = verify(folder)
    assert {"evidence/more.txt", "evidence/link.txt", "pipe", "updates/deep/deeper"} <= set(named(report))


def test_an_archive_that_was_packed_anew_is_not_as_it_was_exported_and_its_folder_is(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "again.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in sorted(folder.rglob("*")):
            archive.write(member, member.relative_to(folder))
    report = verify(path)
    assert report.status is VerificationStatus.FAILED
    assert "unpack it and verify the folder" in str(report.problems[0])
    assert verify(folder).status is VerificationStatus.VERIFIED


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/outside.txt", "evidence/../../outside.txt"])
def test_nothing_is_written_wherever_a_member_says_that_it_belongs(packed: Packed, tmp_path: Path, name: str) -> None:
    path = packed(export())
    with zipfile.ZipFile(path) as archive:
        members = [(member, archive.read(member)) for member in archive.namelist()]
    path.write_bytes(b"".join(archive_chunks([*members, (name, b"outside")])))
    before = sorted(tmp_path.parent.rglob("*"))
    report = verify(path)
    assert report.status is VerificationStatus.FAILED
    assert name in named(report)
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_bytes_before_after_and_between_members_are_found(packed: Packed) -> None:
    path = packed(export())
    whole = path.read_bytes()
    second = whole.index(b"PK\x03\x04", 4)
    for changed in (whole + b"!", whole[:second] + b"hidden" + whole[second:], whole[:-1], whole[: len(whole) // 2]):
        path.write_bytes(changed)
        assert verify(path).status is VerificationStatus.FAILED
    path.write_bytes(b"#!/bin/sh\n" + whole)
    with pytest.raises(NotABundle):
        verify(path)


def test_a_member_given_twice_is_found(packed: Packed) -> None:
    members = [*export().members.items(), ("spec.json", b"{}")]
    path = packed(export())
    path.write_bytes(b"".join(archive_chunks(members)))
    assert ("spec.json", "each member once") in [(each.path, each.expected) for each in verify(path).problems]


def forged(member: str, old: bytes, new: bytes) -> Exported:
    """A bundle with other bytes in one member, and every hash of it put right."""
    content = export().members[member].replace(old, new, 1)
    assert content != export().members[member]
    record = export().record
    updates = [
        replace(each, sha256=digest(content), size=len(content)) if each.member == member else each
        for each in record.updates
    ]
    evidence = [
        replace(each, sha256=digest(content), size=len(content)) if each.member == member else each
        for each in record.evidence
    ]
    outcomes = [replace(each, sha256=digest(content)) if each.member == member else each for each in record.outcomes]
    record = replace(record, updates=tuple(updates), evidence=tuple(evidence), outcomes=tuple(outcomes))
    return Exported(record, {**export().members, member: content})


@pytest.mark.parametrize(
    ("member", "old", "new", "differing"),
    [
        ("judgments/0001.json", b'"recorded_verdict":"supported"', b'"recorded_verdict":"refuted"', 1),
        ("evidence/predictions.jsonl", b"q0", b"q9", 3),
        ("updates/000003.json", b'"supported"', b'"refuted"', 3),
    ],
)
def test_whoever_puts_every_hash_right_has_to_answer_to_the_rules(
    packed: Packed, member: str, old: bytes, new: bytes, differing: int
) -> None:
    report = verify(packed(forged(member, old, new)))
    assert (report.status, report.problems) == (VerificationStatus.FAILED, ())
    different = [check for check in report.judgments if check.standing is Standing.DIFFERENT]
    assert len(different) == differing
    assert all(check.differences for check in different)


def test_another_version_of_the_rules_is_said_with_both_verdicts(packed: Packed) -> None:
    report = verify(packed(export(version="1")))
    assert (report.status, report.problems) == (VerificationStatus.OTHER_VERSION, ())
    assert {(check.validator_version, check.recorded, check.recomputed) for check in report.judgments} == {
        ("1", "supported", "supported")
    }


def test_a_clock_that_jumped_is_seen_through(packed: Packed) -> None:
    """The first outcome is said to have been recorded before anything came, the second before the late file."""
    record = export().record
    moved = [replace(each, recorded_at=record.run.created_at - timedelta(days=1)) for each in record.outcomes]
    report = verify(packed(Exported(replace(record, outcomes=tuple(moved)), export().members)))
    assert report.status is VerificationStatus.VERIFIED


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04", b'{"spec": {}}'])
def test_what_is_no_bundle_is_said_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "something"
    path.write_bytes(content)
    if content == b"PK\x03\x04":
        assert verify(path).status is VerificationStatus.FAILED
        return
    with pytest.raises(NotABundle, match="is not a bundle"):
        verify(path)


def test_a_pipe_an_empty_folder_and_nothing_at_all_are_no_bundles(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing"):
        with pytest.raises(NotABundle, match="is not a bundle"):
            verify(path)


def test_it_is_verified_where_nothing_is_installed(packed: Packed) -> None:
    source = Path(research_exchange.__file__ or "").parents[1]
    start = "runpy.run_module('research_exchange.bundles', run_name='__main__')"
    code = f"import runpy, sys; sys.path.insert(0, {str(source)!r}); {start}"
    path = packed(export())

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "-c", code, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run(str(path))
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "verified")
    path.write_bytes(path.read_bytes()[:-1])
    assert run(str(path)).returncode == 1
    assert (run().returncode, run("missing").returncode) == (2, 2)
