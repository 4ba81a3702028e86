"""A process that is killed in the middle of a change to the catalogue leaves the old state or the new one."""

import subprocess
import sys
from pathlib import Path

import pytest

from spindle.control.catalogue import Catalogue

CHANGE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from tests.spindle.control.saving import INFO, a_run, path
from spindle.control.catalogue import Catalogue
from spindle.control.encryption import encrypt_files, recipients
from spindle.control.paths import Kind
from spindle.control.records import SaveOptions

KEY = "age1ecajc5aexcuv25jcgvdsx88lcu0dsdgnwnu9f2djeeet5my6fsxs6a7w94"

def save(root, content, kind=Kind.TRAINING, keys=()):
    catalogue = Catalogue(root)
    staged = catalogue.stage(path(kind=kind), INFO, SaveOptions(overwrite=True))
    for part in range(3):
        (staged.directory / f"part{part}").write_text(content)
    if keys:
        encrypt_files(staged.directory, recipients(keys))
    catalogue.publish(staged)

CHANGES = {
    "overwrite": lambda root: save(root, "new"),
    "delete": lambda root: Catalogue(root).delete(path()),
    "ttl": lambda root: Catalogue(root).expire_in(path(), 3600),
    "publish": lambda root: Catalogue(root).set_public(path(), True),
    "external": lambda root: save(root, "new", Kind.EXTERNAL, [KEY]),
    "copy": lambda root: Catalogue(root).copy(path(), a_run("c0:train:0"), None),
}

def die_at(number):
    seen = 0
    def hook(event, arguments):
        nonlocal seen
        if event.startswith(("open", "os.", "shutil.")):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

change = CHANGES[sys.argv[2]]
for number in range(1, 500):
    root = Path(sys.argv[1]) / str(number)
    save(root, "old")
    if os.fork() == 0:
        die_at(number)
        change(root)
        os._exit(0)
    if os.WIFEXITED(os.wait()[1]):
        break
print(number)
"""


def outcomes_of_dying(folder: Path, change: str) -> list[str]:
    """What is found of a checkpoint after a process died before its first, second, third ... operation on files."""
    done = subprocess.run(
        [sys.executable, "-c", CHANGE_AND_DIE, str(folder), change],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    operations = int(done.stdout)
    assert operations > 5
    return [state_of(folder / str(number)) for number in range(1, operations + 1)]


def state_of(root: Path) -> str:
    """One word per checkpoint found, which must be whole, and alone in its folder."""
    catalogue = Catalogue(root)
    words = []
    for found in catalogue.checkpoints():
        contents = {file.read_bytes()[:3].decode() for file in found.directory.iterdir()}
        assert len(list(found.directory.iterdir())) == 3
        assert len(contents) == 1
        word = contents.pop()
        words.append(word + ("+ttl" if found.expires_at else "") + ("+public" if found.public else ""))
        leftovers = sorted(entry.name for entry in found.directory.parent.iterdir())
        assert leftovers == sorted(["last.json", found.directory.name])
    if not words:
        assert [file for file in root.rglob("*") if file.is_file()] == []
    return " ".join(sorted(words))


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        ("overwrite", "old", "new"),
        ("delete", "old", ""),
        ("ttl", "old", "old+ttl"),
        ("publish", "old", "old+public"),
        ("external", "old", "age old"),
        ("copy", "old", "old old"),
    ],
)
def test_kill_9_before_any_file_operation_leaves_all_as_it_was_or_as_it_was_to_be(
    tmp_path: Path, change: str, before: str, after: str
) -> None:
    seen = outcomes_of_dying(tmp_path, change)
    turn = seen.index(after)
    assert seen == [before] * turn + [after] * (len(seen) - turn)
    assert turn > 0
