"""The folder of a run that outlives its sessions, and files in it that are never half written."""

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["replace_file", "work_folder"]


def work_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """RX_WORK, which `rx run` and `rx resume` set to one folder for all sessions of a run; else `state`, right here."""
    return Path(environment.get("RX_WORK") or "state")


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that whoever reads it, also after a crash, finds the old content or the new one, and whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
