"""Evidence bytes, in a folder and in S3: kept once, whole or not at all, and hashed at each reading (R-16C)."""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError

from research_exchange.documents.evidence import EvidenceLost
from research_exchange.store import BlobStore, BlobTooLarge, FolderBlobs, StorageUnreachable
from research_exchange.store.blobs import open_blobs
from research_exchange.store.blobs.s3 import PART_BYTES
from tests.services.ports import free_ports
from tests.services.seaweedfs import BUCKET, CREDENTIALS, SeaweedFS

Damage = Callable[[str, bytes | None], None]
"""Puts other bytes, or none, in the place of a blob."""


@pytest.fixture
def folder(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path / "blobs")


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return hashlib.sha256(bytes(tmp_path)).hexdigest()[:16]


@pytest.fixture
def in_s3(seaweedfs: SeaweedFS, prefix: str, tmp_path: Path) -> BlobStore:
    return open_blobs(seaweedfs.url(prefix), tmp_path, CREDENTIALS)


@pytest.fixture(params=["folder", "in_s3"])
def blobs(request: pytest.FixtureRequest) -> BlobStore:
    chosen: BlobStore = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def damage(request: pytest.FixtureRequest, blobs: BlobStore, prefix: str) -> Damage:
    if isinstance(blobs, FolderBlobs):
        return lambda digest, other: (
            blobs.path(digest).unlink() if other is None else _written(blobs.path(digest), other)
        )
    bucket = request.getfixturevalue("seaweedfs").bucket(prefix)

    def replace(digest: str, other: bytes | None) -> None:
        key = f"{digest[:2]}/{digest[2:]}"
        if other is None:
            obstore.delete(bucket, key)
        else:
            obstore.put(bucket, key, other)

    return replace


def _written(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _incoming(tmp_path: Path) -> list[Path]:
    return [path for path in tmp_path.rglob(".incoming-*") if path.is_file()]


def test_bytes_come_back_under_their_hash(blobs: BlobStore) -> None:
    content = bytes(range(256))
    digest = blobs.put(content)
    assert digest == hashlib.sha256(content).hexdigest()
    assert blobs.read(digest) == content
    with blobs.open(digest) as file:
        assert file.read() == content
    assert list(blobs.digests()) == [digest]


def test_the_same_bytes_are_kept_once(blobs: BlobStore) -> None:
    first = blobs.state(blobs.put(b"same"))
    assert blobs.state(blobs.put(b"same")) == first
    assert len(list(blobs.digests())) == 1


@pytest.mark.parametrize(("other", "told"), [(b"as changed!", "other bytes in the place of"), (None, "nothing")])
def test_damaged_bytes_are_lost_evidence_until_the_right_ones_are_offered_again(
    blobs: BlobStore, damage: Damage, other: bytes | None, told: str
) -> None:
    digest = blobs.put(b"as accepted")
    before = blobs.state(digest)
    damage(digest, other)
    assert blobs.state(digest) != before
    for ask in (blobs.read, blobs.open):
        with pytest.raises(EvidenceLost, match=told):
            ask(digest)
    blobs.put(b"as accepted")
    assert blobs.read(digest) == b"as accepted"


def test_a_stream_is_kept_as_it_came(blobs: BlobStore) -> None:
    kept = blobs.put_stream((bytes([number]) * 1000 for number in range(20)), 20_000)
    whole = b"".join(bytes([number]) * 1000 for number in range(20))
    assert (kept.sha256, kept.size) == (hashlib.sha256(whole).hexdigest(), 20_000)
    assert blobs.read(kept.sha256) == whole


def test_a_stream_over_its_cap_is_stopped_at_once_and_leaves_nothing(blobs: BlobStore, tmp_path: Path) -> None:
    taken: list[int] = []

    def endless() -> Iterator[bytes]:
        while True:
            taken.append(1000)
            yield bytes(1000)

    with pytest.raises(BlobTooLarge, match="5,500 bytes at most"):
        blobs.put_stream(endless(), 5_500)
    assert len(taken) == 6
    assert list(blobs.digests()) == []
    assert _incoming(tmp_path) == []


def test_bytes_can_be_looked_at_before_they_are_kept(blobs: BlobStore, tmp_path: Path) -> None:
    with blobs.receive(100) as incoming:
        incoming.write(b"a secret ")
        incoming.write(b"perhaps")
        assert incoming.content() == b"a secret perhaps"
        assert (incoming.size, incoming.sha256) == (16, hashlib.sha256(b"a secret perhaps").hexdigest())
    assert list(blobs.digests()) == []
    assert _incoming(tmp_path) == []


def test_bytes_that_nothing_refers_to_can_be_removed(blobs: BlobStore) -> None:
    digest, other = blobs.put(b"unused"), blobs.put(b"used")
    assert not blobs.remove(digest, older_than_seconds=60)
    assert blobs.remove(digest)
    assert not blobs.remove(digest)
    assert list(blobs.digests()) == [other]


def test_what_a_killed_server_left_is_removed_once_it_is_old(blobs: BlobStore, tmp_path: Path) -> None:
    with blobs.receive(100) as incoming:
        assert blobs.remove_leftovers(3600) == 0
        os.utime(incoming.path, (0, 0))
        assert blobs.remove_leftovers(3600) == 1
    assert _incoming(tmp_path) == []


def test_a_write_that_fails_leaves_no_file(
    folder: FolderBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        folder.put(b"too much")
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []


def test_a_blob_is_on_the_disk_before_put_returns(folder: FolderBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def record(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real(handle)

    monkeypatch.setattr(os, "fsync", record)
    path = folder.path(folder.put(b"durable"))
    assert len(synced) == 3
    assert ".incoming-" in synced[0]
    assert synced[1:] == [str(path.parent), str(path.parent.parent)]


def test_no_writer_replaces_what_another_one_put_there(seaweedfs: SeaweedFS, in_s3: BlobStore, prefix: str) -> None:
    """The server itself refuses a second object under the same name, also from many writers at once."""
    digest = in_s3.put(b"first")
    bucket, key = seaweedfs.bucket(prefix), f"{digest[:2]}/{digest[2:]}"
    with pytest.raises(AlreadyExistsError):
        obstore.put(bucket, key, b"second", mode="create")
    assert in_s3.read(digest) == b"first"

    def create(number: int) -> bool:
        try:
            obstore.put(bucket, "contested", b"%d" % number, mode="create")
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(8)))
    assert won.count(True) == 1
    assert bytes(obstore.get(bucket, "contested").bytes()) == b"%d" % won.index(True)


def test_writers_of_the_same_bytes_all_succeed_and_one_of_them_writes(
    seaweedfs: SeaweedFS, in_s3: BlobStore, prefix: str
) -> None:
    with ThreadPoolExecutor(8) as pool:
        [digest] = set(pool.map(in_s3.put, [b"the same"] * 8))
    bucket, key = seaweedfs.bucket(prefix), f"{digest[:2]}/{digest[2:]}"
    written = obstore.head(bucket, key)["last_modified"]
    time.sleep(1.1)  # the store tells seconds
    in_s3.put(b"the same")
    assert obstore.head(bucket, key)["last_modified"] == written


def test_large_bytes_go_in_parts_and_outlive_a_killed_server(seaweedfs: SeaweedFS, tmp_path: Path) -> None:
    blobs = open_blobs(seaweedfs.url("team/rx"), tmp_path, CREDENTIALS)
    large = os.urandom(2 * PART_BYTES + 1)
    digests = [blobs.put(large), blobs.put(b"small")]
    before = [blobs.state(digest) for digest in digests]
    assert '-3"' in before[0]
    seaweedfs.kill()
    with pytest.raises(StorageUnreachable, match="cannot be used") as unreachable:
        blobs.read(digests[0])
    seaweedfs.start()
    assert [blobs.state(digest) for digest in digests] == before
    assert (blobs.read(digests[0]), blobs.read(digests[1])) == (large, b"small")
    assert [blobs.put(large), blobs.put(b"small")] == digests
    assert [blobs.state(digest) for digest in digests] == before
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in str(unreachable.value)


@pytest.mark.parametrize(
    ("url", "environment", "told"),
    [
        ("https://user:pass@example.org/x", CREDENTIALS, "must have the form s3://BUCKET/PREFIX"),
        ("s3://bucket?acl=public", CREDENTIALS, "must have the form s3://BUCKET/PREFIX"),
        (f"s3://{BUCKET}/x", {"AWS_ACCESS_KEY_ID": "a"}, "set AWS_SECRET_ACCESS_KEY"),
        (f"s3://{BUCKET}/x", {}, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_place_that_cannot_be_used_is_named_in_one_sentence(
    url: str, environment: dict[str, str], told: str, tmp_path: Path
) -> None:
    with pytest.raises(StorageUnreachable, match=told) as refused:
        open_blobs(url, tmp_path, environment)
    assert "pass@" not in str(refused.value)


def test_wrong_credentials_are_found_when_the_store_is_opened(seaweedfs: SeaweedFS, tmp_path: Path) -> None:
    with pytest.raises(StorageUnreachable, match=f"s3://{BUCKET}/x cannot be used") as refused:
        open_blobs(seaweedfs.url("x"), tmp_path, {**CREDENTIALS, "AWS_SECRET_ACCESS_KEY": "another-secret"})
    assert "another-secret" not in str(refused.value)


def test_a_store_that_does_not_answer_is_found_when_it_is_opened(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with pytest.raises(StorageUnreachable, match="cannot be used"):
        open_blobs(f"s3://{BUCKET}/x?endpoint=http://127.0.0.1:{port}", tmp_path, CREDENTIALS)
