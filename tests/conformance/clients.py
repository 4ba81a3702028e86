"""Scripts under another SDK or cookbook than the one of this environment."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers import SpindleServer

ROOT = Path(__file__).parents[2]
CLIENTS = Path(sys.prefix) / "clients"
"""Where `make clients` installs each of `clients/*.txt`."""
UNREACHABLE = "http://127.0.0.1:9"
"""A proxy that refuses at once: what a cookbook looks up elsewhere (prices) is not there, and costs no time."""


def run(module: str, *arguments: str, server: SpindleServer, clients: list[str], seconds: float = 200) -> Any:
    """Run `tests.conformance.MODULE` with these client folders first on its path; returns the JSON it prints last."""
    missing = [name for name in clients if not (CLIENTS / name / ".installed").exists()]
    if missing:
        pytest.fail(f"{', '.join(missing)} not installed in {CLIENTS}: run `make clients`.")
    path = [*(str(CLIENTS / name) for name in clients), str(ROOT)]
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.conformance.{module}", *arguments],
        env={**server.client_environment(), "PYTHONPATH": ":".join(path), "HTTPS_PROXY": UNREACHABLE},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout[-2000:]}\n{ended.stderr[-6000:]}"
    return json.loads(ended.stdout.splitlines()[-1])
