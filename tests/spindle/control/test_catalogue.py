import json
import os
import shutil
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.backends.contract import UserError
from spindle.control.catalogue import Catalogue
from spindle.control.errors import NotFoundError
from spindle.control.paths import CheckpointPath, Kind, checked_name
from spindle.control.records import SaveOptions
from tests.spindle.control.saving import INFO, RUN, Clock, a_run, path, save, start_run


def test_a_saved_checkpoint_is_found_by_a_later_process_with_everything_known_about_it(tmp_path: Path) -> None:
    save(Catalogue(tmp_path), path(), "weights", SaveOptions(user_metadata={"epoch": "1"}))
    found = Catalogue(tmp_path).find(path())
    assert (found.directory / "state").read_text() == "weights"
    assert found.lora == INFO.lora
    assert found.optimizer == INFO.optimizer
    assert found.step == 3
    assert found.base_model == "org/base"
    assert found.size_bytes == len("weights")
    assert found.user_metadata == {"epoch": "1"}
    assert found.created_at.tzinfo is not None


def test_training_runs_are_remembered(tmp_path: Path) -> None:
    run = start_run(Catalogue(tmp_path), owner="alice", project="p1")
    assert Catalogue(tmp_path).run(RUN) == run
    assert Catalogue(tmp_path).run("0f3c:train:1") is None


def test_a_staged_checkpoint_is_invisible_and_swept_by_the_next_process(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    staged = catalogue.stage(path(), INFO, SaveOptions())
    (staged.directory / "state").write_text("half")
    with pytest.raises(UserError, match="There is no checkpoint"):
        catalogue.find(path())
    Catalogue(tmp_path)
    assert not staged.directory.exists()


def test_a_failing_write_leaves_nothing(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    staged = catalogue.stage(path(), INFO, SaveOptions())
    with pytest.raises(OSError, match="disk full"), catalogue.discarding(staged):
        raise OSError("disk full")
    assert not staged.directory.exists()


def test_an_existing_name_needs_overwrite_and_kinds_do_not_collide(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    save(catalogue, path(), "old", SaveOptions(user_metadata={"a": "1"}))
    save(catalogue, path(kind=Kind.SAMPLER), "snapshot")
    with pytest.raises(UserError, match=r"tinker://0f3c:train:0/weights/last exists already"):
        catalogue.stage(path(), INFO, SaveOptions())
    save(catalogue, path(), "new", SaveOptions(overwrite=True))
    found = catalogue.find(path())
    assert (found.directory / "state").read_text() == "new"
    assert found.user_metadata == {}
    directories = [entry for entry in found.directory.parent.iterdir() if entry.is_dir()]
    assert directories == [found.directory]


def test_a_checkpoint_ends_with_its_time(tmp_path: Path) -> None:
    clock = Clock()
    catalogue = Catalogue(tmp_path, now=clock)
    save(catalogue, path(), "weights", SaveOptions(ttl_seconds=3600))
    directory = catalogue.find(path()).directory
    clock.time += timedelta(seconds=3599)
    catalogue.delete_expired()
    assert catalogue.get(path()) is not None
    clock.time += timedelta(seconds=1)
    assert catalogue.get(path()) is None
    catalogue.delete_expired()
    assert not directory.exists()


@pytest.mark.parametrize("stuck", ["one", "two"])
def test_a_checkpoint_that_cannot_be_removed_does_not_keep_the_others(tmp_path: Path, stuck: str) -> None:
    clock = Clock()
    catalogue = Catalogue(tmp_path, now=clock)
    saved = {name: save(catalogue, path(name), name, SaveOptions(ttl_seconds=3600)) for name in ("one", "two")}
    pointer = saved[stuck].directory.parent / f"{stuck}.json"
    pointer.unlink()
    pointer.mkdir()
    clock.time += timedelta(seconds=3600)
    catalogue.delete_expired()
    assert {name for name, checkpoint in saved.items() if checkpoint.directory.exists()} == {stuck}


@pytest.mark.parametrize("seconds", [0, 3599, 11 * 366 * 86400])
def test_times_outside_the_allowed_range_are_refused(tmp_path: Path, seconds: int) -> None:
    with pytest.raises(UserError, match=f"ttl_seconds is {seconds}"):
        Catalogue(tmp_path).stage(path(), INFO, SaveOptions(ttl_seconds=seconds))


def test_the_last_state_is_the_newest_training_checkpoint(tmp_path: Path) -> None:
    clock = Clock()
    catalogue = Catalogue(tmp_path, now=clock)
    assert catalogue.last_state(RUN) is None
    for name in ("b", "a"):
        clock.time += timedelta(seconds=1)
        save(catalogue, path(name), name)
    clock.time += timedelta(seconds=1)
    save(catalogue, path("c", Kind.SAMPLER), "snapshot")
    last = catalogue.last_state(RUN)
    assert last is not None
    assert last.path.name == "a"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a\\b", "x" * 129, "with space", "tab\t", "é", None])
def test_names_that_cannot_be_part_of_a_path_are_refused(name: str | None) -> None:
    with pytest.raises(UserError, match="cannot name a checkpoint"):
        checked_name(name)


@given(st.text(max_size=40))
def test_whatever_a_path_says_it_is_read_back_as_it_is_or_refused(text: str) -> None:
    for candidate in (text, f"tinker://{text}", f"tinker://{RUN}/weights/{text}", f"tinker://{text}/weights/a"):
        try:
            parsed = CheckpointPath.parse(candidate)
        except UserError:
            continue
        assert str(parsed) == candidate
        assert ".." not in (parsed.run, parsed.name)
        assert "/" not in parsed.run + parsed.name


def test_a_lost_pointer_hides_a_checkpoint_instead_of_breaking_the_catalogue(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    save(catalogue, path("kept"), "kept")
    save(catalogue, path("gone"), "gone")
    pointer = catalogue.find(path("gone")).directory.parent / "gone.json"
    assert json.loads(pointer.read_bytes())["path"] == str(path("gone"))
    pointer.unlink()
    reopened = Catalogue(tmp_path)
    assert reopened.get(path("gone")) is None
    assert reopened.get(path("kept")) is not None


@pytest.mark.parametrize("damage", [b"", b'{"path": "tink', b"[]", b'{"path": 5, "expires_at": null}', b"\xff"])
def test_a_damaged_pointer_costs_neither_its_own_files_nor_other_checkpoints(tmp_path: Path, damage: bytes) -> None:
    clock = Clock()
    catalogue = Catalogue(tmp_path, now=clock)
    save(catalogue, path("kept"), "kept")
    save(catalogue, path("brief"), "brief", SaveOptions(ttl_seconds=3600))
    save(catalogue, path("bad"), "bad")
    directory = catalogue.find(path("bad")).directory
    (directory.parent / "bad.json").write_bytes(damage)
    clock.time += timedelta(seconds=3600)
    reopened = Catalogue(tmp_path, now=clock)
    assert (directory / "state").read_text() == "bad"
    with pytest.raises(UserError, match=r"bad\.json.* is damaged"):
        reopened.find(path("bad"))
    last = reopened.last_state(RUN)
    assert last is not None
    assert last.path.name == "kept"
    reopened.delete_expired()
    assert not (directory.parent / "brief.json").exists()
    save(reopened, path("bad"), "new", SaveOptions(overwrite=True))
    assert (reopened.find(path("bad")).directory / "state").read_text() == "new"


def test_what_leads_to_a_checkpoint_is_on_the_disk_before_the_checkpoint_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    sync = os.fsync

    def recording(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    save(Catalogue(tmp_path / "data"), path(), "weights")
    directory = Catalogue(tmp_path / "data").find(path()).directory
    above = [parent for parent in directory.parents if parent.is_relative_to(tmp_path)]
    assert {directory / "state", directory, *above} <= set(synced)


def test_the_checkpoint_moves_with_its_folder(tmp_path: Path) -> None:
    save(Catalogue(tmp_path / "here"), path(), "weights")
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert (Catalogue(tmp_path / "there").find(path()).directory / "state").read_text() == "weights"


def test_a_deleted_checkpoint_is_gone_for_good_and_deleting_it_again_is_not_found(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    kept, gone = save(catalogue, path("kept"), "kept"), save(catalogue, path("gone"), "gone")
    catalogue.delete(path("gone"))
    with pytest.raises(NotFoundError, match="There is no checkpoint"):
        catalogue.delete(path("gone"))
    assert not gone.directory.exists()
    assert kept.directory.exists()
    for opened in (catalogue, Catalogue(tmp_path)):
        assert [checkpoint.path.name for checkpoint in opened.checkpoints()] == ["kept"]


def test_a_damaged_checkpoint_can_be_deleted_with_its_files(tmp_path: Path) -> None:
    damaged = save(Catalogue(tmp_path), path("a"), "a").directory
    save(Catalogue(tmp_path), path("a.xyz"), "other")
    (damaged.parent / "a.json").write_bytes(b"{}")
    catalogue = Catalogue(tmp_path)
    catalogue.delete(path("a"))
    assert not damaged.exists()
    assert catalogue.get(path("a")) is None
    assert Catalogue(tmp_path).get(path("a.xyz")) is not None


def test_the_time_of_a_checkpoint_can_be_changed_and_taken_away(tmp_path: Path) -> None:
    clock = Clock()
    catalogue = Catalogue(tmp_path, now=clock)
    save(catalogue, path(), "weights", SaveOptions(ttl_seconds=3600))
    catalogue.expire_in(path(), 7200)
    clock.time += timedelta(seconds=3601)
    assert Catalogue(tmp_path, now=clock).find(path()).expires_at == clock.time + timedelta(seconds=3599)
    catalogue.expire_in(path(), None)
    clock.time += timedelta(days=4000)
    assert Catalogue(tmp_path, now=clock).find(path()).expires_at is None
    with pytest.raises(UserError, match="ttl_seconds is 60"):
        catalogue.expire_in(path(), 60)
    with pytest.raises(NotFoundError):
        catalogue.expire_in(path("none"), 3600)


def test_listing_leaves_out_what_expired_before_it_is_swept(tmp_path: Path) -> None:
    clock = Clock()
    catalogue = Catalogue(tmp_path, now=clock)
    save(catalogue, path("brief"), "a", SaveOptions(ttl_seconds=3600))
    clock.time += timedelta(seconds=1)
    save(catalogue, path("long"), "b")
    assert [checkpoint.path.name for checkpoint in catalogue.checkpoints()] == ["long", "brief"]
    clock.time += timedelta(seconds=3599)
    assert [checkpoint.path.name for checkpoint in catalogue.checkpoints(RUN)] == ["long"]
    with pytest.raises(UserError, match="There is no checkpoint"), catalogue.reading(path("brief")):
        pass
    with pytest.raises(NotFoundError):
        catalogue.expire_in(path("brief"), None)


def test_a_checkpoint_is_public_until_it_is_not(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    save(catalogue, path(), "weights")
    for public in (True, True, False, False):
        catalogue.set_public(path(), public)
        assert Catalogue(tmp_path).find(path()).public is public


def test_files_that_are_read_outlive_their_checkpoint(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    old = save(catalogue, path(), "old").directory
    with catalogue.reading(path()) as first, catalogue.reading(path()):
        save(catalogue, path(), "new", SaveOptions(overwrite=True))
        with catalogue.reading(path()) as second:
            catalogue.delete(path())
            assert (first.directory / "state").read_text() == "old"
            assert (second.directory / "state").read_text() == "new"
        assert not second.directory.exists()
    assert not old.exists()
    with pytest.raises(UserError, match="There is no checkpoint"), catalogue.reading(path()):
        pass


def test_only_the_version_that_is_there_can_be_borrowed(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    old = save(catalogue, path(), "old").directory
    assert catalogue.borrow(path(), old)
    new = save(catalogue, path(), "new", SaveOptions(overwrite=True)).directory
    assert not catalogue.borrow(path(), old)
    assert catalogue.borrow(path(), new)
    assert old.exists()
    catalogue.give_back(old)
    assert not old.exists()


def test_a_copy_is_a_run_of_its_own_that_shares_files_and_outlives_its_source(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    source = save(catalogue, path(), "weights", SaveOptions(user_metadata={"a": "1"}, ttl_seconds=3600))
    catalogue.set_public(path(), True)
    copied = catalogue.copy(path(), a_run("c0:train:0"), 7200)
    assert copied.path == path(run="c0:train:0")
    assert (copied.directory / "state").stat().st_ino == (source.directory / "state").stat().st_ino
    assert (copied.step, copied.lora, copied.user_metadata, copied.public) == (3, INFO.lora, {"a": "1"}, False)
    assert copied.expires_at is not None
    assert (copied.expires_at - copied.created_at).total_seconds() == 7200
    catalogue.delete(path())
    assert (Catalogue(tmp_path).find(copied.path).directory / "state").read_text() == "weights"


def test_what_is_known_of_a_run_survives_a_damaged_description(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    start_run(catalogue)
    start_run(catalogue, "e:train:0")
    save(catalogue, path(), "weights")
    for file in tmp_path.rglob("run.json"):
        file.write_bytes(b"{")
    reopened = Catalogue(tmp_path)
    run = reopened.run(RUN)
    assert run is not None
    assert (run.base_model, run.lora) == ("org/base", INFO.lora)
    assert reopened.index.corrupted(RUN)
    assert reopened.run("e:train:0") is None


def test_ten_thousand_checkpoints_are_listed_without_the_disk(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    first = save(catalogue, path("first"), "a")
    for number in range(10_000):
        catalogue.index.put(replace(first, path=path(f"n{number}"), directory=first.directory.with_name(f"n{number}")))
    shutil.rmtree(tmp_path)
    begun = time.process_time()
    listed = catalogue.checkpoints()
    assert len(listed) == 10_001
    assert listed[0].path.name == "n9999"
    assert time.process_time() - begun < 0.5
