"""How much checkpoints may take."""

import dataclasses
import errno
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from spindle.backends.contract import UserError
from spindle.control.catalogue import Catalogue
from spindle.control.paths import Kind
from spindle.control.records import SaveOptions
from spindle.control.room import FLOOR
from tests.spindle.control.saving import INFO, Clock, a_run, path, save, start_run


def files(root: Path) -> list[Path]:
    return [file for file in root.rglob("*") if file.name == "state"]


def test_a_save_over_the_limit_says_what_is_used_asked_and_allowed_and_what_to_delete(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path, checkpoint_bytes=10_000)
    start_run(catalogue, "other:train:0", "other")
    save(catalogue, path("secret", run="other:train:0"), "x" * 1000)
    save(catalogue, path("large"), "x" * 5000)
    save(catalogue, path("small", Kind.SAMPLER), "x" * 1000)
    with pytest.raises(UserError) as refusal:
        save(catalogue, path("next"), "x" * 4000)
    sentence = str(refusal.value)
    assert "it takes 3.9 KiB" in sentence
    assert "take 6.8 KiB of the 9.8 KiB that its limit checkpoint_bytes allows" in sentence
    assert "tinker checkpoint delete tinker://0f3c:train:0/weights/large frees 4.9 KiB" in sentence
    assert "secret" not in sentence
    assert len(files(tmp_path)) == 3
    catalogue.delete(path("large"))
    save(catalogue, path("next"), "x" * 4000)


def test_what_an_overwrite_frees_counts_and_a_copy_takes_room(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path, checkpoint_bytes=10_000)
    save(catalogue, path(), "x" * 6000)
    save(catalogue, path(), "y" * 9000, SaveOptions(overwrite=True))
    with pytest.raises(UserError, match=r"was not saved: it takes 8\.8 KiB"):
        catalogue.copy(path(), a_run("c:train:0"), None)
    assert catalogue.run("c:train:0") is None
    assert len(files(tmp_path)) == 1


def test_what_has_expired_takes_no_room(tmp_path: Path) -> None:
    clock = Clock()
    catalogue = Catalogue(tmp_path, checkpoint_bytes=10_000, now=clock)
    save(catalogue, path("brief"), "x" * 9000, SaveOptions(ttl_seconds=3600))
    with pytest.raises(UserError, match="was not saved"):
        save(catalogue, path("next"), "x" * 9000)
    clock.time += timedelta(seconds=3600)
    save(catalogue, path("next"), "x" * 9000)


def test_a_disk_that_is_almost_full_is_left_alone(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    catalogue.room = dataclasses.replace(catalogue.room, free=lambda _: FLOOR - 1)
    with pytest.raises(UserError, match=r"weights/last was not saved: the disk of .* has 256\.0 MiB free"):
        save(catalogue, path(), "weights")
    assert files(tmp_path) == []
    catalogue.room = dataclasses.replace(catalogue.room, free=lambda _: FLOOR)
    save(catalogue, path(), "weights")


class FromRustError(Exception):
    """What safetensors and age raise."""


@pytest.mark.parametrize(
    "full",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        FromRustError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_disk_that_fills_up_during_a_save_is_said_so_and_leaves_nothing(tmp_path: Path, full: Exception) -> None:
    catalogue = Catalogue(tmp_path)
    staged = catalogue.stage(path(), INFO, SaveOptions())
    (staged.directory / "state").write_text("half")
    with pytest.raises(UserError, match="make room there, or delete checkpoints"), catalogue.discarding(staged):
        raise full
    assert files(tmp_path) == []


@pytest.mark.parametrize("what", ["run", "ttl", "publish", "copy"])
def test_every_change_on_a_full_disk_is_refused_in_words_and_leaves_nothing(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = Catalogue(tmp_path)
    start_run(catalogue)
    before = save(catalogue, path(), "weights")
    there = {file for file in tmp_path.rglob("*") if file.is_file()}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    changes: dict[str, Callable[[], object]] = {
        "run": lambda: start_run(catalogue, "new:train:0"),
        "ttl": lambda: catalogue.expire_in(path(), 3600),
        "publish": lambda: catalogue.set_public(path(), True),
        "copy": lambda: catalogue.copy(path(), a_run("copy:train:0"), None),
    }
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"was not saved: the disk of .* make room there, or delete checkpoints"):
        changes[what]()
    assert {file for file in tmp_path.rglob("*") if file.is_file()} == there
    assert catalogue.find(path()) == before
