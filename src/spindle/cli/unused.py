"""The end of a server that nobody uses any more.

Whoever uses it holds a shared lock on a file, which the system takes back from a process however that ends.
"""

import fcntl
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
from rich.markup import escape

from spindle.cli.console import UsageProblemError, say

LOOK_SECONDS = 0.25
LAST_SECONDS = 15.0
"""What a server gets, beyond its grace, before it is ended in the middle of whatever keeps it."""


def stop_when_unlocked(file: Path, grace: float) -> None:
    """Stop this process, as SIGTERM does, once no other one holds a lock on `file`.

    From then on this process holds it alone until its end, so that nobody begins to use a server that is stopping.

    Raises:
        UsageProblemError: the file can be neither opened nor made.
    """
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise UsageProblemError(
            f"--while-locked {file} cannot be opened ({error.strerror}); name another file."
        ) from None
    threading.Thread(target=_watch, args=(handle, file, grace), daemon=True).start()


def _watch(handle: int, file: Path, grace: float) -> None:
    while not _locked(handle):
        time.sleep(LOOK_SECONDS)
    say(f"Nobody holds a lock on {escape(str(file))} any more, so Spindle stops.")
    for child in psutil.Process().children(recursive=True):  # such as the download of a model
        with suppress(psutil.Error):
            child.terminate()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace + LAST_SECONDS)
    os._exit(1)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
