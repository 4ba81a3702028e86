"""The example for the SDK in the README, pasted as it stands, with the model it names."""

import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from spindle.backends import models
from spindle_whereabouts import data_directory
from tests.servers import SpindleServer

README = Path(__file__).parents[2] / "README.md"
REAL = "HuggingFaceTB/SmolLM2-135M-Instruct"


def example() -> str:
    """The indented block of the README that creates a service client."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n)+", README.read_text(), re.MULTILINE)
    (found,) = [block for block in blocks if "tinker.ServiceClient(" in block]
    return textwrap.dedent(found)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[SpindleServer]:
    """A server with the real model, in a data folder of its own."""
    pulled = models.find(REAL, models.cache_directory(data_directory(None)))
    if pulled is None:
        pytest.skip(f"{REAL} is not here: `spindle models pull`")
    server = SpindleServer(pulled.path, tmp_path / "data", name=REAL)
    yield server.start()
    server.stop()


def test_the_example_runs_as_it_stands(real: SpindleServer) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", example()],
        env=real.client_environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    # Once in a while the SDK's HTTP threads, which end with Python, abort a process that has done everything.
    assert ended.returncode in (0, -signal.SIGABRT), ended.stderr
    assert "Fredville" in ended.stdout.splitlines()[-1], ended.stdout
    losses = [float(loss) for loss in re.findall(r"^\d+ ([\d.]+)$", ended.stdout, re.MULTILINE)]
    assert losses[-1] < 0.5 * losses[0], ended.stdout
