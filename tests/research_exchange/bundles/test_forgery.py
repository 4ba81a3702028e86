"""Each check stands by itself: a forger who puts the others right is still found by it."""

import json
import os
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from research_exchange.bundles import VerificationStatus, verify
from research_exchange.bundles.build import manifest_text
from research_exchange.bundles.members import MOST_TEXT_BYTES, Folder
from research_exchange.evidence import MAX_FILE_BYTES, MAX_FILES
from tests.research_exchange.bundles.exported import export
from tests.research_exchange.rules.support import patched, paths

Change = Callable[[Any], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "bundle"
    (tmp_path / "bundle.zip").write_bytes(export().packed())
    with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
        archive.extractall(path)
    return path


def put_right(folder: Path) -> None:
    """Writes the manifest of the members as they are."""
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").write_bytes(manifest_text(Folder(folder).members))


def rewrite(path: Path, change: Change, **layout: Any) -> None:
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document, ensure_ascii=False, **{"indent": 2, **layout}) + "\n")


def problems(folder: Path) -> dict[str, str]:
    report = verify(folder)
    assert report.status is VerificationStatus.FAILED
    return {problem.path: problem.found for problem in report.problems}


def test_both_texts_are_written_one_way_only(folder: Path) -> None:
    rewrite(folder / "manifest.json", lambda document: None, indent=1)
    assert problems(folder) == {"manifest.json": "another"}
    rewrite(folder / "run.json", lambda document: None, indent=1)
    put_right(folder)
    assert problems(folder) == {"run.json": "another"}


@pytest.mark.parametrize("member", ["updates/000001.json", "evidence/predictions.jsonl", "spec.json", "judgment.json"])
def test_a_document_has_to_have_the_hash_of_the_record_too(folder: Path, member: str) -> None:
    path = folder / member
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    put_right(folder)
    assert problems(folder)[member].startswith("others, with the hash")


def test_a_member_has_to_be_named_by_the_record_too(folder: Path) -> None:
    (folder / "evidence" / "more.txt").write_text("more")
    put_right(folder)
    assert problems(folder)["evidence/more.txt"] == "one"


def test_a_size_has_to_be_that_of_the_member(folder: Path) -> None:
    rewrite(folder / "run.json", lambda record: record["updates"][0].update(size=1))
    put_right(folder)
    assert problems(folder)["run.json, updates/000001.json"] == "1"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda record: record["evidence"][0].update(size=MAX_FILE_BYTES + 1), "bytes in a file"),
        (lambda record: record["evidence"].extend(MAX_FILES * record["evidence"]), "files"),
        (lambda record: [file.update(size=25 * 2**20) for file in record["evidence"]], "bytes of evidence"),
    ],
)
def test_more_than_a_run_may_retain_is_no_run(folder: Path, change: Change, what: str) -> None:
    """R-163"""
    rewrite(folder / "run.json", change)
    put_right(folder)
    assert f"run.json, {what}" in problems(folder)


def test_the_crate_has_to_speak_of_these_members(folder: Path) -> None:
    rewrite(folder / "ro-crate-metadata.json", lambda crate: crate["@graph"][1]["hasPart"].pop())
    put_right(folder)
    assert problems(folder) == {"ro-crate-metadata.json": "others"}


def test_a_link_is_not_read(folder: Path, tmp_path: Path) -> None:
    update = folder / "updates" / "000001.json"
    update.rename(tmp_path / "elsewhere.json")
    update.symlink_to(tmp_path / "elsewhere.json")
    assert problems(folder)["updates/000001.json"].startswith("a link")


def test_a_file_whose_name_is_no_text_is_named_all_the_same(folder: Path) -> None:
    Path(os.fsdecode(bytes(folder / "evidence") + b"/\xff")).write_bytes(b"")
    assert problems(folder) == {"evidence/\\udcff": "other bytes"}


@pytest.mark.parametrize("member", ["run.json", "manifest.json", "ro-crate-metadata.json"])
def test_a_text_that_never_ends_is_not_read(folder: Path, member: str) -> None:
    with (folder / member).open("ab") as file:
        file.truncate(MOST_TEXT_BYTES + 1)
    if member != "manifest.json":
        put_right(folder)
    assert any("are enough for any run" in found for found in problems(folder).values())


def test_a_checksum_that_is_wrong_in_both_places_is_found(tmp_path: Path) -> None:
    """Of the archive: in front of a member and in the list at the end."""
    whole, path = bytearray(export().packed()), tmp_path / "bundle.zip"
    (crc,) = struct.unpack_from("<I", whole, 14)
    assert whole.count(struct.pack("<I", crc)) == 2
    path.write_bytes(whole.replace(struct.pack("<I", crc), struct.pack("<I", crc ^ 1)))
    assert problems(path) == {"spec.json": f"others, with the checksum {crc:08x}"}


@pytest.mark.parametrize(
    ("operation", "sentence"),
    [
        ({"op": "replace", "path": "/version", "value": 2}, "version is 1; found 2"),
        ({"op": "remove", "path": "/run/id"}, 'run has exactly the fields of a record; missing or unknown: "id"'),
        ({"op": "add", "path": "/run/more", "value": 1}, 'missing or unknown: "more"'),
        ({"op": "replace", "path": "/updates/0/sequence", "value": True}, "updates[0].sequence is a whole number"),
        ({"op": "replace", "path": "/run/created_at", "value": "today"}, "run.created_at is a moment in UTC"),
        ({"op": "replace", "path": "/run/created_at", "value": "2026-01-01T12:00:00"}, "is a moment in UTC"),
        ({"op": "replace", "path": "/evidence", "value": {}}, "evidence is a list; found an empty object"),
        ({"op": "replace", "path": "/sessions/0", "value": 1}, "sessions[0] is an object; found 1"),
        ({"op": "replace", "path": "/spec/title", "value": None}, "spec.title is text; found nothing"),
        ({"op": "replace", "path": "/updates/1/sequence", "value": 9}, "updates/000009.json is missing"),
    ],
)
def test_what_is_wrong_in_the_record_is_said_in_a_sentence(folder: Path, operation: Any, sentence: str) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps(patched(json.loads(path.read_bytes()), [operation])))
    put_right(folder)
    assert sentence in problems(folder)["run.json"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.randoms(use_true_random=False),
    value=st.none() | st.booleans() | st.integers(-1, 9) | st.text(max_size=5) | st.just([]) | st.just({}),
)
def test_whatever_a_record_says_there_is_a_report(folder: Path, place: random.Random, value: Any) -> None:
    path = folder / "run.json"
    kept = path.read_bytes()
    record = json.loads(kept)
    path.write_text(
        json.dumps(patched(record, [{"op": "replace", "path": place.choice(paths(record)), "value": value}]))
    )
    put_right(folder)
    assert verify(folder).status is VerificationStatus.FAILED
    path.write_bytes(kept)
