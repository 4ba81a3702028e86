"""One process per data folder: two would sweep away each other's unfinished files."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DataInUseError(Exception):
    """Another process serves this data folder; one sentence."""


@contextmanager
def exclusive(data: Path) -> Iterator[None]:
    """Hold the folder; the lock ends with the process, however it ends."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataInUseError(
                f"Another spindle serves the data folder {data}: stop it, or choose another folder with --data."
            ) from error
        yield
