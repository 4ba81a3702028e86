"""`rx` as a process, beside a real training service."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping

from tests.servers import SpindleServer

Rx = Callable[..., "subprocess.CompletedProcess[str]"]

RX = [sys.executable, "-m", "research_exchange.cli"]


def environment_of(spindle: SpindleServer) -> Mapping[str, str]:
    """What somebody who runs `rx` has in their environment."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("RX_", "TINKER_"))}
    return {**own, **spindle.exports, "COLUMNS": "120"}


def rx_beside(spindle: SpindleServer) -> Rx:
    """Runs `rx` to its end; keywords change its environment."""
    environment = environment_of(spindle)

    def _rx(*arguments: str, **changes: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*RX, *arguments], capture_output=True, text=True, env={**environment, **changes}, timeout=180, check=False
        )

    return _rx
