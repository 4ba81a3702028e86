"""Evidence bytes: kept once, whole or not at all, and hashed again whenever they are read (R-16C)."""

import hashlib
import os
from pathlib import Path

import pytest

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.store import BlobStore


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def test_bytes_come_back_under_their_hash(blobs: BlobStore, tmp_path: Path) -> None:
    content = bytes(range(256))
    digest = blobs.put(content)
    assert digest == hashlib.sha256(content).hexdigest()
    assert blobs.read(digest) == content
    assert (tmp_path / "blobs" / digest[:2] / digest[2:]).read_bytes() == content


def test_the_same_bytes_are_kept_once(blobs: BlobStore) -> None:
    first = blobs.path(blobs.put(b"same")).stat().st_ino
    assert blobs.path(blobs.put(b"same")).stat().st_ino == first


def test_changed_bytes_are_lost_evidence(blobs: BlobStore) -> None:
    digest = blobs.put(b"as accepted")
    blobs.path(digest).write_bytes(b"as changed!")
    with pytest.raises(EvidenceLost, match="other bytes in the place of"):
        blobs.read(digest)


def test_missing_bytes_are_lost_evidence(blobs: BlobStore) -> None:
    digest = blobs.put(b"as accepted")
    blobs.path(digest).unlink()
    with pytest.raises(EvidenceLost, match="nothing readable"):
        blobs.read(digest)


def test_offering_the_right_bytes_again_mends_a_damaged_blob(blobs: BlobStore) -> None:
    digest = blobs.put(b"as accepted")
    blobs.path(digest).write_bytes(b"damaged")
    blobs.put(b"as accepted")
    assert blobs.read(digest) == b"as accepted"


def test_a_write_that_fails_leaves_no_file(blobs: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        blobs.put(b"too much")
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []


def test_a_blob_is_on_the_disk_before_put_returns(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def record(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real(handle)

    monkeypatch.setattr(os, "fsync", record)
    path = blobs.path(blobs.put(b"durable"))
    assert len(synced) == 3
    assert ".incoming-" in synced[0]
    assert synced[1:] == [str(path.parent), str(path.parent.parent)]
