"""What downloads rest on: signed links, age encryption, archives."""

import hashlib
import hmac
import io
import stat
import tarfile
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyrage
import pytest

from spindle.backends.contract import UserError
from spindle.control import archive
from spindle.control.encryption import MOST_RECIPIENTS, encrypt_files, recipients
from spindle.control.errors import ForbiddenError
from spindle.control.links import LIFETIME, Links
from tests.spindle.control.saving import Clock

PATH = "/api/v1/downloads/s:train:0/external_weights/a/files/adapter_config.json"
SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsKLqeplhpW+uObz5dvMgjz1OxfM/XXUB+VHtZ6isGN alice@rust"


def parts(target: str) -> tuple[str, str, str]:
    query = parse_qs(urlsplit(target).query)
    return urlsplit(target).path, query["expires"][0], query["signature"][0]


def test_a_link_opens_its_path_until_its_time_also_after_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    link = Links(tmp_path, clock).sign(PATH)
    path, expires, signature = parts(link.target)
    assert path == PATH
    assert link.expires - clock.time == LIFETIME
    assert stat.S_IMODE((tmp_path / "link-secret").stat().st_mode) == 0o600
    later = Links(tmp_path, clock)
    clock.time += LIFETIME - timedelta(seconds=1)
    later.check(path, expires, signature)
    clock.time += timedelta(seconds=1)
    with pytest.raises(ForbiddenError, match="has expired"):
        later.check(path, expires, signature)


@pytest.mark.parametrize("left", ["", "\n", "0123"])
def test_a_secret_that_a_crash_cut_short_signs_nothing(tmp_path: Path, left: str) -> None:
    (tmp_path / "link-secret").write_text(left)
    clock = Clock()
    expires = str(int(clock.time.timestamp()) + 60)
    forged = hmac.new(left.strip().encode(), f"{PATH}\n{expires}".encode(), hashlib.sha256).hexdigest()
    with pytest.raises(ForbiddenError, match="not one that this server made"):
        Links(tmp_path, clock).check(PATH, expires, forged)


def test_nothing_about_a_link_can_be_changed(tmp_path: Path) -> None:
    clock = Clock()
    links = Links(tmp_path / "here", clock)
    _, expires, signature = parts(links.sign(PATH).target)
    attempts = [
        (PATH.replace("/a/", "/b/"), expires, signature),
        (PATH, str(int(expires) + 3600), signature),
        (PATH, expires, signature[:-1] + ("0" if signature[-1] != "0" else "1")),
        (PATH, expires, signature.upper()),
        (PATH, expires, ""),
        (PATH, "", ""),
        (PATH, "never", "é"),
        parts(Links(tmp_path / "there", clock).sign(PATH).target),
    ]
    for attempt in attempts:
        with pytest.raises(ForbiddenError, match="not one that this server made"):
            links.check(*attempt)


def test_only_the_holder_of_a_key_reads_what_is_encrypted(tmp_path: Path) -> None:
    holder, other = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
    (tmp_path / "below").mkdir()
    for name in ("adapter_config.json", "below/weights"):
        (tmp_path / name).write_bytes(name.encode() * 100_000)
    encrypt_files(tmp_path, recipients([SSH, str(holder.to_public())]))
    files = {file.relative_to(tmp_path).as_posix(): file for file in tmp_path.rglob("*") if file.is_file()}
    assert sorted(files) == ["adapter_config.json.age", "below/weights.age"]
    for name, file in files.items():
        assert pyrage.decrypt(file.read_bytes(), [holder]) == name.removesuffix(".age").encode() * 100_000
        with pytest.raises(pyrage.DecryptError):
            pyrage.decrypt(file.read_bytes(), [other])


@pytest.mark.parametrize("key", ["age1nope", "ssh-rsa AAAA", "", "AGE-SECRET-KEY-1", "alice"])
def test_a_recipient_that_is_no_public_key_is_named(key: str) -> None:
    with pytest.raises(UserError, match=r"age_encryption_recipients\[1\] is .*expected an X25519 key"):
        recipients([SSH, key])


def test_more_than_ten_recipients_are_refused() -> None:
    assert len(recipients([SSH] * MOST_RECIPIENTS)) == MOST_RECIPIENTS
    with pytest.raises(UserError, match="has 11 keys; at most 10"):
        recipients([SSH] * (MOST_RECIPIENTS + 1))


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, archive.PIECE + 1])
def test_an_archive_has_the_files_its_length_says_and_ends_with_the_mark_of_old_clients(
    tmp_path: Path, size: int
) -> None:
    (tmp_path / "a.bin").write_bytes(b"x" * size)
    (tmp_path / "b.json").write_text("{}")
    files = {"a.bin": tmp_path / "a.bin", "b.json": tmp_path / "b.json"}
    content = b"".join(archive.pieces(files))
    assert len(content) == archive.length(files)
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
        members = tar.getmembers()
        assert [member.name for member in members] == ["a.bin", "b.json", archive.COMPLETE]
        assert all(member.isfile() for member in members)
        member = tar.extractfile("a.bin")
        assert member is not None
        assert member.read() == b"x" * size
