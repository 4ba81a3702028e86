"""The log of a session as evidence: without credentials, and cut in the middle where there is no room for all of it.

And the end of any log, for a sentence about it.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from research_exchange.client import Run
from research_exchange.credentials import redact
from research_exchange.evidence import MAX_FILE_BYTES, MAX_FILES, MAX_RUN_BYTES

__all__ = ["NoRoom", "evidence_bytes", "retain_log", "room_for_log", "tail"]

_SHARE_OF_HEAD = 0.25
"""Of the room: the beginning of a log says what was started, its end how that ended."""
_MARGIN = 4096
"""For the line that says what was left out, and for replacements longer than what they replace."""
_SPACE = re.compile(rb"\s")


class NoRoom(Exception):
    """The caps of a run leave no room for a log; the text is one sentence."""


def retain_log(run: Run, session: str, log: Path, secrets: Sequence[bytes]) -> None:
    """Keep what a session said as `log-<session>.txt`.

    Raises:
        NoRoom: the run's files leave no room for it (R-163).
        ExchangeRefused: the Exchange does not take it.
    """
    files = run.record()["evidence"]
    room = room_for_log(sum(file["size"] for file in files), len(files))
    run.evidence(f"log-{session}.txt", "log", evidence_bytes(log, room, secrets))


def room_for_log(retained_bytes: int, retained_files: int) -> int:
    """How long a log may be: half of what is left, so that a later session finds room for its own.

    Raises:
        NoRoom: nothing is left.
    """
    room = min(MAX_FILE_BYTES, (MAX_RUN_BYTES - retained_bytes) // 2)
    if retained_files >= MAX_FILES or room < 2 * _MARGIN:
        raise NoRoom("The log was not retained: the run's other files leave no room for it (R-163).")
    return room


def evidence_bytes(log: Path, room: int, secrets: Sequence[bytes]) -> bytes:
    """A log without its credentials, in at most `room` bytes; where it is longer, its beginning and its end.

    It is cut where a word ends, so that no half of a credential is left.
    """
    size = log.stat().st_size if log.exists() else 0
    if size <= room - _MARGIN:
        return redact(log.read_bytes() if size else b"", secrets)[:room]
    head_bytes = int(_SHARE_OF_HEAD * room)
    tail_bytes = room - head_bytes - _MARGIN
    with log.open("rb") as file:
        head = file.read(head_bytes)
        file.seek(size - tail_bytes)
        tail = file.read(tail_bytes)
    last = len(head) - next((place.start() for place in _SPACE.finditer(head[::-1])), len(head))
    first = next((place.end() for place in _SPACE.finditer(tail)), len(tail))
    head, tail = head[:last], tail[first:]
    middle = f"\n[... {size - len(head) - len(tail):,} bytes are left out here ...]\n".encode()
    return (redact(head, secrets) + middle + redact(tail, secrets))[:room]


def tail(said: str, lines: int = 15) -> str:
    """The last lines."""
    return "\n".join(said.strip().splitlines()[-lines:])
