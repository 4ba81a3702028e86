"""Backups: everything as it was at one moment, brought back whole into any kind of place, or refused with a reason."""

import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from research_exchange.store import EvidenceRecord, LaunchMode, RunnerKind, Store
from research_exchange.store.backups import BadBackup, FileExists, NotEmpty, back_up, open_backup, restore
from research_exchange.store.backups.making import BACKED_UP
from research_exchange.store.backups.rows import rows_of
from tests.research_exchange.store.conftest import NOON, RUN, SPEC, TOKEN, one_row_in_every_table, run_of
from tests.services.postgresql import PostgreSQLServer
from tests.services.seaweedfs import CREDENTIALS, SeaweedFS

EVIDENCE = bytes(range(256)) * 40


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with rows in every table and bytes behind them."""
    with store.writing() as writer:
        one_row_in_every_table(writer)
        writer.add_run("run_0000000001", SPEC, LaunchMode.REDO, "rxr_redo", NOON, redo_of=RUN)
        brief = store.blobs.put("Ein Auftrag, künftig".encode())
        writer.add_session("run_0000000001", "ses_1111111111", NOON, RunnerKind.AGENT, brief)
        digest = store.blobs.put(EVIDENCE)
        writer.add_evidence(RUN, EvidenceRecord("b.bin", "log", digest, len(EVIDENCE), None, NOON, 1))
        writer.append_update(RUN, bytes(range(256)), None, NOON)
    return store


@pytest.fixture
def file(filled: Store, tmp_path: Path) -> Path:
    target = tmp_path / "backup.zip"
    back_up(filled, target, NOON)
    return target


@pytest.fixture(params=["sqlite", "postgresql"])
def other_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place to restore into: a database without any table, or a file that is not there yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'restored.sqlite3'}"
        return
    server: PostgreSQLServer = request.getfixturevalue("postgresql")
    database = server.create()
    yield server.url(database)
    server.drop(database)


def _rows(store: Store) -> dict[str, list[object]]:
    with store.snapshot() as connection:
        return {table.name: list(rows_of(connection, table)) for table in BACKED_UP}


def _restored(file: Path, data: Path, database_url: str | None = None, evidence_url: str | None = None) -> Store:
    with open_backup(file) as backup:
        restore(backup, data, database_url, evidence_url)
    return Store.open(data, database_url, evidence_url)


def test_everything_comes_back_in_either_kind_of_database(
    filled: Store, file: Path, other_url: str, tmp_path: Path
) -> None:
    with closing(_restored(file, tmp_path / "other", other_url)) as restored:
        assert _rows(restored) == _rows(filled)
        with restored.writing() as writer:
            record = writer.evidence_named(RUN, "b.bin")
            assert record is not None
            assert restored.blobs.read(record.sha256) == EVIDENCE
            assert run_of(writer, TOKEN) == RUN
            assert writer.append_update(RUN, b"{}", None, NOON).sequence == 3
        assert len(list(restored.blobs.digests())) == 2
    assert file.stat().st_mode & 0o777 == 0o600


def test_evidence_comes_back_in_s3(
    file: Path, seaweedfs: SeaweedFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    urls = (f"sqlite:///{tmp_path / 'restored.sqlite3'}", seaweedfs.url(f"restored-{tmp_path.name}"))
    with closing(_restored(file, tmp_path / "other", *urls)) as restored:
        with restored.reading() as reader:
            record = reader.evidence_named(RUN, "b.bin")
        assert record is not None
        assert restored.blobs.read(record.sha256) == EVIDENCE
        again = tmp_path / "again.zip"
        manifest = back_up(restored, again, NOON)
    assert (manifest.blobs, manifest.lost) == (2, ["b" * 64])


def test_a_backup_replaces_nothing(filled: Store, file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(FileExists, match=r"backup\.zip is there already"):
        back_up(filled, file, NOON)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.glob("*backup.zip*")] == ["backup.zip"]


def test_a_backup_is_restored_into_nothing_only(filled: Store, file: Path, data: Path, database_url: str) -> None:
    before = _rows(filled)
    with open_backup(file) as backup, pytest.raises(NotEmpty, match="a backup replaces nothing"):
        restore(backup, data, database_url)
    assert _rows(filled) == before


def test_a_backup_is_of_one_moment_though_others_write(filled: Store, tmp_path: Path) -> None:
    stop = threading.Event()

    def post() -> None:
        while not stop.is_set():
            with filled.writing() as writer:
                digest = filled.blobs.put(b"%d" % writer.count_updates(RUN))
                update = writer.append_update(RUN, b"{}", None, NOON)
                writer.add_evidence(RUN, EvidenceRecord(f"{update.sequence}", "log", digest, 1, update.sequence, NOON))

    poster = threading.Thread(target=post)
    poster.start()
    try:
        made = [back_up(filled, tmp_path / f"{number}.zip", NOON) for number in range(3)]
    finally:
        stop.set()
        poster.join()
    assert all(manifest.rows["evidence"] == manifest.rows["updates"] for manifest in made)
    assert [manifest.lost for manifest in made] == [["b" * 64]] * 3
    with closing(_restored(tmp_path / "2.zip", tmp_path / "other")) as restored, restored.reading() as reader:
        assert [update.sequence for update in reader.updates(RUN)] == list(range(1, made[2].rows["updates"] + 1))


def test_bytes_that_were_lost_before_are_named_and_the_rest_comes_back(filled: Store, tmp_path: Path) -> None:
    digest = filled.blobs.put(EVIDENCE)
    filled.blobs.remove(digest)
    manifest = back_up(filled, tmp_path / "backup.zip", NOON)
    assert manifest.lost == sorted([digest, "b" * 64])
    with closing(_restored(tmp_path / "backup.zip", tmp_path / "other")) as restored:
        assert _rows(restored) == _rows(filled)


Change = Callable[[dict[str, bytes]], None]


def _rewritten(file: Path, change: Change) -> Path:
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file


def _of_manifest(**values: object) -> Change:
    def change(entries: dict[str, bytes]) -> None:
        entries["backup.json"] = json.dumps({**json.loads(entries["backup.json"]), **values}).encode()

    return change


def _without(prefix: str) -> Change:
    def change(entries: dict[str, bytes]) -> None:
        del entries[next(name for name in entries if name.startswith(prefix))]

    return change


def _with_other_evidence(entries: dict[str, bytes]) -> None:
    entries[next(name for name in entries if name.startswith("blobs/"))] = b"other bytes"


def _with_other_update(entries: dict[str, bytes]) -> None:
    first, second = entries["rows/updates.jsonl"].splitlines()
    row = {**json.loads(first), "raw": "e30K"}
    entries["rows/updates.jsonl"] = json.dumps(row).encode() + b"\n" + second + b"\n"


def _with_a_row_less(entries: dict[str, bytes]) -> None:
    entries["rows/runs.jsonl"] = entries["rows/runs.jsonl"].splitlines()[0] + b"\n"


def _with_an_odd_row(entries: dict[str, bytes]) -> None:
    entries["rows/specs.jsonl"] = b'{"id": "exp_1"}\n'


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_of_manifest(format=2), "it has the format 2, and this version reads 1"),
        (_of_manifest(schema="9999"), "newer than this version"),
        (_of_manifest(mood="good"), r"its backup\.json cannot be read"),
        (_without("backup.json"), r"it has no backup\.json"),
        (_without("rows/updates"), r"it has no rows/updates\.jsonl"),
        (_without("blobs/"), "1 of its evidence files are missing"),
        (_with_other_evidence, "have the hash"),
        (_with_other_update, f"update 1 of {RUN} is not what was posted"),
        (_with_a_row_less, "2 rows of runs, and has 1"),
        (_with_an_odd_row, "a row of specs cannot be read"),
    ],
)
@pytest.mark.parametrize("database_url", ["sqlite_url"], indirect=True)
def test_a_backup_that_is_not_whole_is_refused_and_nothing_is_written(
    file: Path, tmp_path: Path, change: Change, told: str
) -> None:
    with pytest.raises(BadBackup, match=told), open_backup(_rewritten(file, change)) as backup:
        restore(backup, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("database_url", ["sqlite_url"], indirect=True)
def test_a_damaged_file_is_refused(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        entry = archive.getinfo("rows/updates.jsonl")
    inside = entry.header_offset + len("rows/updates.jsonl") + 60
    damaged = {
        b"no archive at all": "it is not a ZIP archive",
        whole[: len(whole) // 2]: "it is not a ZIP archive",
        whole[:inside]
        + bytes([whole[inside] ^ 1])
        + whole[inside + 1 :]: "is damaged|cannot be read|is no whole backup",
    }
    for content, told in damaged.items():
        file.write_bytes(content)
        with pytest.raises(BadBackup, match=told), open_backup(file) as backup:
            restore(backup, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def _of_the_schema_before(entries: dict[str, bytes]) -> None:
    """As version 0006 would have written it, which had no hooks and no attachments."""
    manifest = json.loads(entries["backup.json"])
    for table in ("hooks", "deliveries", "attachments"):
        del manifest["rows"][table], manifest["columns"][table], entries[f"rows/{table}.jsonl"]
    entries["backup.json"] = json.dumps({**manifest, "schema": "0006"}).encode()


@pytest.mark.parametrize("database_url", ["sqlite_url"], indirect=True)
def test_an_older_backup_is_brought_up_to_date(filled: Store, file: Path, tmp_path: Path) -> None:
    before = _rows(filled)
    with closing(_restored(_rewritten(file, _of_the_schema_before), tmp_path / "other")) as restored:
        assert _rows(restored) == {**before, "hooks": [], "deliveries": [], "attachments": []}
