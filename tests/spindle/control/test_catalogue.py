import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.backends.contract import LoraShape, ModelInfo, OptimizerConfig, UserError
from spindle.control.catalogue import Catalogue
from spindle.control.paths import CheckpointPath, Kind, checked_name
from spindle.control.records import SaveOptions, TrainingRun

RUN = "0f3c:train:0"
INFO = ModelInfo(
    RUN, "org/base", "LlamaForCausalLM", LoraShape(rank=4, seed=9), OptimizerConfig("adamw", {"eps": 1e-8}), 3
)


def path(name: str = "last", kind: Kind = Kind.TRAINING) -> CheckpointPath:
    return CheckpointPath(RUN, kind, name)


def save(catalogue: Catalogue, where: CheckpointPath, content: str, options: SaveOptions | None = None) -> None:
    staged = catalogue.stage(where, INFO, options or SaveOptions())
    (staged.directory / "state").write_text(content)
    catalogue.publish(staged)


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


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
    run = TrainingRun(RUN, "org/base", INFO.lora, INFO.optimizer, datetime.now(UTC), {"renderer_name": "chat"})
    Catalogue(tmp_path).record(run)
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


OVERWRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from tests.spindle.control.test_catalogue import INFO, path
from spindle.control.catalogue import Catalogue
from spindle.control.records import SaveOptions

def save(root, content):
    catalogue = Catalogue(root)
    staged = catalogue.stage(path(), INFO, SaveOptions(overwrite=True))
    for part in range(3):
        (staged.directory / f"part{part}").write_text(content)
    catalogue.publish(staged)

def die_at(number):
    seen = 0
    def hook(event, arguments):
        nonlocal seen
        if event.startswith(("open", "os.", "shutil.")):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

for number in range(1, 500):
    root = Path(sys.argv[1]) / str(number)
    save(root, "old")
    if os.fork() == 0:
        die_at(number)
        save(root, "new")
        os._exit(0)
    if os.WIFEXITED(os.wait()[1]):
        break
print(number)
"""


def test_kill_9_before_any_file_operation_leaves_the_old_or_the_new_checkpoint_whole(tmp_path: Path) -> None:
    """A process overwrites a checkpoint and is killed before its first, second, third ... operation on files."""
    done = subprocess.run(
        [sys.executable, "-c", OVERWRITE_AND_DIE, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    operations = int(done.stdout)
    assert operations > 20
    survivors = []
    for number in range(1, operations + 1):
        found = Catalogue(tmp_path / str(number)).find(path())
        (content,) = {(found.directory / f"part{part}").read_text() for part in range(3)}
        survivors.append(content)
        leftovers = sorted(entry.name for entry in found.directory.parent.iterdir())
        assert leftovers == sorted(["last.json", found.directory.name])
    assert survivors == sorted(survivors, reverse=True)
    assert set(survivors) == {"old", "new"}


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
