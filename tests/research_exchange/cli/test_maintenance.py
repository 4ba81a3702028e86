"""`rx backup`, `rx restore` and `rx prune`, on data folders of real Exchanges."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from research_exchange.store import EvidenceRecord, LaunchMode, Role, SpecRecord, Store
from tests.research_exchange.cli.commands import Rx

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUN = "run_0123456789"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of an Exchange with a run, an update, a file, and a token that ended long ago."""
    folder = tmp_path / "data"
    store = Store.open(folder)
    with store.writing() as writer:
        writer.add_spec(SpecRecord("exp_0123456789", "a" * 64, "A title", NOON, b"{}"))
        writer.add_run(RUN, "exp_0123456789", LaunchMode.ORDINARY, "rxr_a-secret", NOON)
        writer.append_update(RUN, b"{}", None, NOON)
        writer.add_evidence(RUN, EvidenceRecord("a.txt", "log", store.blobs.put(b"kept"), 4, 1, NOON))
        writer.add_token("rxa_ended", Role.REVIEWER, "ended", NOON, expires_at=NOON)
    store.close()
    return folder


def test_a_backup_comes_back_elsewhere(rx: Rx, data: Path, tmp_path: Path) -> None:
    file, other = str(tmp_path / "backup.zip"), tmp_path / "other"
    made = rx("backup", file, "--data", str(data))
    assert (made.code, made.out, made.err) == (0, f"{file} holds 1 run, 1 update, 1 file.\n", "")
    restored = rx("restore", file, "--data", str(other))
    assert (restored.code, restored.err) == (0, "")
    assert re.fullmatch(r"Restored and verified, as of 20[-0-9T:]+ UTC: 1 run, 1 update, 1 file\.\n", restored.out)
    store = Store.open(other)
    with store.reading() as reader:
        [evidence] = reader.evidence(RUN)
    assert store.blobs.read(evidence.sha256) == b"kept"
    store.close()
    described = json.loads(rx("backup", str(tmp_path / "second.zip"), "--data", str(other), "--json").out)
    assert (described["rows"]["runs"], described["blobs"], described["lost"]) == (1, 1, [])


def test_nothing_is_replaced(rx: Rx, data: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "backup.zip")
    assert rx("backup", file, "--data", str(data)).code == 0
    again = rx("backup", file, "--data", str(data))
    assert (again.code, again.err) == (
        2,
        f"rx: {file} is there already, and a backup replaces nothing; name a new file.\n",
    )
    over = rx("restore", file, "--data", str(data))
    assert over.code == 2
    assert "already, and a backup replaces nothing; name an empty place." in over.err


def test_lost_evidence_is_named(rx: Rx, data: Path, tmp_path: Path) -> None:
    [blob] = [path for path in (data / "blobs").rglob("*") if path.is_file()]
    blob.write_bytes(b"changed")
    made = rx("backup", str(tmp_path / "backup.zip"), "--data", str(data))
    assert made.code == 1
    assert made.err == f"Evidence {blob.parent.name}{blob.name} is gone or damaged, so it is not in the backup.\n"


def test_what_is_no_backup_or_no_exchange_is_said_in_one_sentence(rx: Rx, data: Path, tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("text")
    wrong = rx("restore", str(tmp_path / "text.zip"), "--data", str(tmp_path / "other"))
    assert (wrong.code, wrong.err) == (2, f"rx: {tmp_path}/text.zip is no backup: it is not a ZIP archive.\n")
    missing = rx("restore", str(tmp_path / "none.zip"), "--data", str(tmp_path / "other"))
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    nowhere = rx("backup", str(tmp_path / "b.zip"), "--data", str(tmp_path / "other"))
    assert (nowhere.code, nowhere.err) == (
        2,
        f"rx: There is no Exchange in {tmp_path}/other; name its folder with --data.\n",
    )
    elsewhere = rx("backup", str(tmp_path / "b.zip"), "--data", str(data), "--database-url", "mysql://u:secret@h/n")
    assert elsewhere.code == 2
    assert "mysql is not supported" in elsewhere.err
    assert "secret" not in elsewhere.err
    assert not (tmp_path / "other").exists()


def test_pruning_says_what_goes(rx: Rx, data: Path) -> None:
    would = rx("prune", "--dry-run", "--data", str(data)).out.splitlines()
    assert would[0] == "Would go:"
    assert [line.split(maxsplit=1) for line in would[1:]] == [
        ["0", "cached judgments"],
        ["1", "tokens"],
        ["0", "deliveries"],
        ["0", "attachments"],
        ["0", "blobs"],
        ["0", "cut off uploads"],
    ]
    assert rx("prune", "--data", str(data)).out.splitlines() == ["Thrown away:", *would[1:]]
    assert json.loads(rx("prune", "--data", str(data), "--json").out)["tokens"] == 0
