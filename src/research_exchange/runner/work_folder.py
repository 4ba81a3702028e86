"""Where a run lives on the machine that executes it: `<data>/work/<run>/`.

- `source/`: the spec's folder as it was when the run was created; every session starts from a copy of it.
- `state/`: RX_WORK, what the script keeps for a later session, such as the name of its last checkpoint.
- `revision`, `code.patch`: the git revision that the folder was at, and how it differed from it.
- `lock`: held while somebody executes the run, and while what a killed runner left of it is being ended.
- `<session>/folder`: where the command of one session runs; removed when it ends well.
- `<session>/script.log`, `brief.md`: what the command said, and what an agent was given to read.
"""

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from research_exchange.runner.environment import patch_of, revision_of
from research_exchange.runner.errors import CannotExecute
from research_exchange.runner.script import copy_folder

__all__ = ["SessionFolder", "WorkFolder"]

PREPARING = "work.lock"
"""Beside the work folders: shared by all who prepare one, and held alone by whoever removes what was left of them."""
_NEW = ".new-"
"""What the name of a folder starts with that is no run's yet."""


@dataclass(frozen=True)
class SessionFolder:
    """The part of a work folder that belongs to one session."""

    path: Path

    @property
    def folder(self) -> Path:
        """Where the command runs."""
        return self.path / "folder"

    @property
    def log(self) -> Path:
        """What the command said, on both of its outputs."""
        return self.path / "script.log"

    @property
    def brief(self) -> Path:
        """What an agent was given to read."""
        return self.path / "brief.md"


@dataclass(frozen=True)
class WorkFolder:
    """The folder of one run."""

    path: Path

    @classmethod
    def of(cls, data: Path, run_id: str) -> "WorkFolder":
        """Of a run of the Exchange that keeps its data in `data`; it need not exist yet."""
        return cls(data / "work" / run_id)

    @property
    def source(self) -> Path:
        return self.path / "source"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def revision(self) -> str:
        """The git revision of `source`, or "unversioned"."""
        return (self.path / "revision").read_text().strip()

    @property
    def patch(self) -> bytes:
        """How `source` differs from that revision; empty where it does not."""
        return (self.path / "code.patch").read_bytes()

    @property
    def is_here(self) -> bool:
        """Whether this machine has what the run executes."""
        return self.source.is_dir() and (self.path / "revision").exists()

    def keep(self, spec_folder: Path) -> None:
        """Copy the folder of a spec, so that later sessions and repetitions execute what was there at this moment.

        Raises:
            UnfitFolder: it is too large, or cannot be read.
        """
        copy_folder(spec_folder, self.source)
        self.state.mkdir()
        (self.path / "code.patch").write_bytes(patch_of(spec_folder))
        (self.path / "revision").write_text(revision_of(spec_folder) + "\n")

    def keep_from(self, earlier: "WorkFolder") -> None:
        """The same for another run of the same spec version.

        Raises:
            UnfitFolder: as `keep`.
        """
        copy_folder(earlier.source, self.source)
        self.state.mkdir()
        for name in ("code.patch", "revision"):
            shutil.copyfile(earlier.path / name, self.path / name)

    @classmethod
    @contextmanager
    def prepared(cls, data: Path) -> "Iterator[WorkFolder]":
        """One before there is a run: a folder that `become` gives to it, and that is removed where none comes.

        What killed processes left of such folders is removed too, by whoever finds that no other process prepares one.
        """
        work = data / "work"
        work.mkdir(parents=True, exist_ok=True)
        with (data / PREPARING).open("w") as lock:
            if _locked(lock.fileno()):
                for left in work.glob(f"{_NEW}*"):
                    shutil.rmtree(left, ignore_errors=True)
            fcntl.flock(lock, fcntl.LOCK_SH)
            made = cls(Path(tempfile.mkdtemp(prefix=_NEW, dir=work)))
            try:
                yield made
            finally:
                shutil.rmtree(made.path, ignore_errors=True)

    def become(self, other: "WorkFolder") -> "WorkFolder":
        """Take the place of another one, which does not exist yet."""
        self.path.rename(other.path)
        return other

    @contextmanager
    def occupied(self, wait: float = 0.0) -> Iterator[int]:
        """Keeps everybody else from executing the run while the block goes on; yields the open lock.

        Whatever ends this process lets go of it too, unless it was handed on to a child that goes on.

        Raises:
            CannotExecute: somebody else holds it, and did not let go within `wait` seconds.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + wait
        with (self.path / "lock").open("w") as lock:
            while not _locked(lock.fileno()):
                if time.monotonic() >= deadline:
                    raise CannotExecute(
                        f"{self.path.name} is being executed on this machine; wait, or cancel it first."
                    )
                time.sleep(0.1)
            yield lock.fileno()

    def new_session(self, session: str) -> SessionFolder:
        """A folder for a session that begins."""
        made = SessionFolder(self.path / session)
        made.path.mkdir(parents=True)
        self.state.mkdir(exist_ok=True)
        return made


def _locked(handle: int) -> bool:
    """Whether this process has the lock now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
