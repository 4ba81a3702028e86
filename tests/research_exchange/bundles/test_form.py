"""A bundle is one sequence of bytes, a zip file that any program reads, and an RO-Crate."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocrate.rocrate import ROCrate

from research_exchange.bundles import BundleTooLarge, build, bundle_chunks, contents_of, open_members, read_record
from research_exchange.bundles.archive import Archive, archive_chunks
from research_exchange.bundles.members import MOST_BYTES
from research_exchange.documents.evidence import EvidenceLost
from tests.research_exchange.bundles.exported import export

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundles") / "bundle.zip"
    path.write_bytes(export().packed())
    return path


def test_what_was_exported_comes_back(packed: Path) -> None:
    with open_members(packed) as members:
        assert read_record(members) == export().record
        for name, content in export().members.items():
            assert members.read(name) == content


def test_the_same_run_is_the_same_bytes_from_an_exchange_from_a_bundle_and_from_a_folder(
    packed: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path)
    for path in (packed, tmp_path):
        with open_members(path) as members:
            again = b"".join(bundle_chunks(read_record(members), contents_of(members)))
        assert again == packed.read_bytes()


def test_any_program_that_knows_zip_files_reads_it(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        assert archive.testzip() is None
        assert archive.read("evidence/späte notiz.txt") == b"late\n"
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.external_attr >> 16 for info in archive.infolist()} == {0o100644}


@given(st.dictionaries(NAMES, st.binary(max_size=50), min_size=1, max_size=5))
def test_an_archive_gives_back_what_it_was_made_of(tmp_path_factory: pytest.TempPathFactory, members: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any.zip"
    path.write_bytes(b"".join(archive_chunks(members.items())))
    with Archive(path) as archive:
        assert archive.problems == []
        assert {name: archive.read(name) for name in archive.members} == members
    with zipfile.ZipFile(path) as known:
        assert {info.filename: known.read(info) for info in known.infolist()} == members


def test_it_is_written_to_what_cannot_be_sought_in() -> None:
    class Pipe(io.RawIOBase):
        taken = b""

        def writable(self) -> bool:
            return True

        def write(self, chunk: Any) -> int:
            self.taken += bytes(chunk)
            return len(chunk)

    pipe: Any = Pipe()
    build(export().record, export().contents, pipe)
    assert pipe.taken == export().packed()


def test_other_tools_read_it_as_a_crate(packed: Path) -> None:
    """https://pypi.org/project/rocrate/"""
    crate = ROCrate(packed)
    assert crate.version == "1.1"
    with zipfile.ZipFile(packed) as archive:
        metadata = json.loads(archive.read("ro-crate-metadata.json"))
        described = {file["name"]: file for file in metadata["@graph"] if file["@type"] == "File"}
        assert set(described) == set(archive.namelist()) - {"ro-crate-metadata.json"}
        assert all(described[name]["contentSize"] == str(archive.getinfo(name).file_size) for name in export().members)
    assert {entity.id for entity in crate.data_entities} == {file["@id"] for file in described.values()}
    assert crate.root_dataset["datePublished"] == "2026-01-01T12:30:00.000123Z"


def test_every_reference_in_the_crate_leads_somewhere(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
    addresses = [entity["@id"] for entity in graph]
    assert len(set(addresses)) == len(addresses)
    values = [
        each
        for entity in graph
        for value in entity.values()
        for each in (value if isinstance(value, list) else [value])
    ]
    references = {value["@id"] for value in values if isinstance(value, dict)}
    assert {reference for reference in references if not reference.startswith("http")} <= set(addresses)


def test_a_file_that_the_exchange_lost_is_left_out_and_said(tmp_path: Path) -> None:
    def gone() -> bytes:
        raise EvidenceLost("nothing readable in its place")

    path = tmp_path / "bundle.zip"
    contents = {**export().contents, "evidence/predictions.jsonl": gone}
    path.write_bytes(b"".join(bundle_chunks(export().record, contents)))
    with open_members(path) as members:
        (loss,) = read_record(members).lost
        assert (loss.member, loss.found) == ("evidence/predictions.jsonl", "nothing readable in its place")
        assert loss.member not in members.members


def test_a_run_that_no_bundle_can_hold_is_refused_before_anything_is_written() -> None:
    record = export().record
    large = replace(record, updates=(replace(record.updates[0], size=MOST_BYTES),))
    with pytest.raises(BundleTooLarge, match="a bundle holds"):
        bundle_chunks(large, export().contents)
