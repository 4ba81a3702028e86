"""The evidence of a run, as its Exchange keeps it."""

from pathlib import Path
from typing import Any


def files(data: Path, record: dict[str, Any]) -> dict[str, bytes]:
    """The evidence of a run, by name."""
    listed = record["evidence"]
    return {each["name"]: next((data / "blobs").rglob(each["sha256"][2:])).read_bytes() for each in listed}
