"""One command under guard, in a fresh copy of its folder, with everything it says in one log."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from research_exchange.runner.guarded import GuardedCommand, in_shell
from research_exchange.runner.limits import NO_LIMITS, Limits

LARGEST_FOLDER_BYTES = 100 * 2**20
STOP_SECONDS = 10.0
"""What a script gets to clean up after SIGTERM."""


class UnfitFolder(Exception):
    """No run gets a copy of the folder of a spec; the text is one sentence for a person."""


class FolderTooLarge(UnfitFolder):
    """It holds more than a script and its small inputs."""


class FolderUnreadable(UnfitFolder):
    """Something in it cannot be read."""


def check_folder(source: Path) -> None:
    """Raises FolderTooLarge for a folder that no run gets a copy of."""
    size = 0
    for folder, folders, names in os.walk(source, followlinks=True):
        left_out = _left_out(folder, [*folders, *names])
        folders[:] = set(folders) - left_out
        size += sum((Path(folder) / name).stat().st_size for name in set(names) - left_out)
        if size > LARGEST_FOLDER_BYTES:
            raise FolderTooLarge(
                f"{source} holds more than the {LARGEST_FOLDER_BYTES // 2**20} MiB that a run gets a copy of; "
                "give the spec a folder of its own."
            )


def copy_folder(source: Path, target: Path) -> None:
    """A fresh copy of a spec's folder, without hidden files (`.env`, `.git`), caches, and links that lead nowhere.

    Raises:
        FolderTooLarge: it holds more than a script and its small inputs.
        FolderUnreadable: something in it cannot be read.
    """
    check_folder(source)
    try:
        shutil.copytree(source, target, ignore=_left_out)
    except shutil.Error as trouble:
        path, _, why = trouble.args[0][0]
        raise FolderUnreadable(
            f"{path} cannot be copied for the run: {why}. Make it readable, or keep it outside the spec's folder."
        ) from None


def _left_out(folder: str, names: Sequence[str]) -> set[str]:
    """Of the entries of a folder."""
    return {
        name for name in names if name.startswith(".") or name == "__pycache__" or _leads_nowhere(Path(folder, name))
    }


def _leads_nowhere(path: Path) -> bool:
    """A broken link, a link to a folder it stands in, or what is neither file nor folder, such as a pipe."""
    if path.is_symlink() and path.is_dir():
        return path.parent.resolve().is_relative_to(path.resolve())
    return not (path.is_file() or path.is_dir())


class Script:
    """A running line for the shell; leaving the `with` block ends it and everything it started."""

    def __init__(
        self,
        command: str,
        folder: Path,
        environment: Mapping[str, str],
        log: Path,
        *,
        given: Path | None = None,
        limits: Limits = NO_LIMITS,
        holds: Sequence[int] = (),
    ) -> None:
        """Start it; the arguments are those of `GuardedCommand`."""
        self._guarded = GuardedCommand(
            in_shell(command),
            folder=folder,
            environment=environment,
            output=log,
            given=given,
            limits=limits,
            holds=holds,
            stop_seconds=STOP_SECONDS,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._guarded.stop()

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None when it still runs after `seconds`."""
        return self._guarded.wait(seconds)
