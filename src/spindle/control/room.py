"""How much disk checkpoints may take, and what to delete when it is not enough."""

import shutil
from collections.abc import Callable, Sequence
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


def _amount(count: int) -> str:
    """Bytes for people, e.g. "12.5 MiB"."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
