"""How much disk checkpoints may take, and what to delete when it is not enough."""

import errno
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spindle.backends.contract import UserError
from spindle.control.paths import CheckpointPath
from spindle.control.records import Checkpoint

FLOOR = 256 * 1024 * 1024
"""Bytes of the disk that stay free, so that the machine goes on working."""

LARGEST = 3
"""Checkpoints named in a refusal."""


def free_bytes(folder: Path) -> int:
    """Bytes free on the disk of a folder."""
    return shutil.disk_usage(folder).free


@dataclass(frozen=True)
class Room:
    """The limit on all checkpoints together, and the floor of the disk."""

    folder: Path
    limit: int | None = None
    """Bytes; None has the disk as the only limit."""
    free: Callable[[Path], int] = free_bytes

    def check_disk(self, what: str) -> None:
        """`UserError` when the disk is too full to write `what`."""
        if self.free(self.folder) < FLOOR:
            raise self.full(what)

    @contextmanager
    def writing(self, what: str, directory: Path | None = None) -> Iterator[None]:
        """When what is done inside fails, the directory is removed; a disk that is full is a `UserError`."""
        try:
            yield
        except BaseException as error:
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)
            if _is_full(error):
                raise self.full(what) from error
            raise

    def full(self, what: str) -> UserError:
        """Why `what` could not be written."""
        return UserError(
            f"{what} was not saved: the disk of {self.folder} has {_amount(self.free(self.folder))} free, and Spindle "
            f"leaves {_amount(FLOOR)} of it alone; make room there, or delete checkpoints (tinker checkpoint delete)."
        )

    def check(self, path: CheckpointPath, asked: int, used: int, owned: Sequence[Checkpoint]) -> None:
        """`UserError` when `asked` bytes more do not fit; it names the largest of what the saver has."""
        if self.limit is None or used + asked <= self.limit:
            return
        largest = sorted(owned, key=lambda checkpoint: checkpoint.size_bytes, reverse=True)[:LARGEST]
        advice = "; ".join(
            f"tinker checkpoint delete {found.path} frees {_amount(found.size_bytes)}" for found in largest
        )
        raise UserError(
            f"{path} was not saved: it takes {_amount(asked)}, and the checkpoints of this server take {_amount(used)} "
            f"of the {_amount(self.limit)} that its limit checkpoint_bytes allows. "
            f"Delete some, or raise the limit{': ' + advice if advice else ''}."
        )


def _is_full(error: BaseException) -> bool:
    """Whether something could not be written for want of room. Libraries in Rust say so in their text alone."""
    codes = (errno.ENOSPC, errno.EDQUOT)
    said = any(f"(os error {code})" in str(error) for code in codes)
    return said or (isinstance(error, OSError) and error.errno in codes)


def _amount(count: int) -> str:
    """Bytes for people, e.g. "12.5 MiB"."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
