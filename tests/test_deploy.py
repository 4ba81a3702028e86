"""The files in `deploy` are documentation, held to what can be checked without a container engine or an init system."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
SERVICE = ROOT / "deploy" / "research-exchange.service"
BIN = Path(sys.executable).parent


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the Containerfile with its arguments, continued lines joined."""
    lines = [line for line in CONTAINERFILE.read_text().splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


def argument(name: str) -> str:
    return next(rest for instruction, rest in instructions() if instruction == name)


def test_a_container_file_has_no_known_mistake() -> None:
    done = subprocess.run([BIN / "hadolint", CONTAINERFILE], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_container_copies_files_that_are_there_and_installs_extras_that_exist() -> None:
    for name, rest in instructions():
        if name == "COPY":
            *sources, _ = shlex.split(rest)
            assert [source for source in sources if not (ROOT / source).exists()] == []
    extras = re.search(r"/src\[([\w,]+)\]", argument("RUN"))
    assert extras is not None
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras[1].split(",")) <= known.keys()


def test_a_container_serves_and_finds_itself_well(tmp_path: Path) -> None:
    """Its command and its health check, run here as they stand, but for the port and the data folder."""
    command, check = json.loads(argument("CMD")), json.loads(argument("HEALTHCHECK").partition("CMD ")[2])
    assert "RX_DATA=/data" in argument("ENV").split()
    with serving([str(BIN / command[0]), *command[1:]], tmp_path) as url:
        assert url.startswith("http://0.0.0.0:")
        script = check[-1].replace("127.0.0.1:8300", url.removeprefix("http://").replace("0.0.0.0", "127.0.0.1"))
        subprocess.run([sys.executable, *check[1:-1], script], check=True, timeout=30)
        asked = check[-1].replace("127.0.0.1:8300/health", f"127.0.0.1:{url.rpartition(':')[2]}/api/runs")
        refused = subprocess.run(
            [sys.executable, *check[1:-1], asked], check=False, capture_output=True, text=True, timeout=30
        )
        assert "401" in refused.stderr, "reading takes a token where other machines reach it"


def test_a_service_file_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("No systemd-analyze here; Debian's package systemd has it.")
    file = tmp_path / SERVICE.name
    file.write_text(SERVICE.read_text().replace("/opt/research-exchange/bin", str(BIN)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", file], check=False, capture_output=True, text=True, timeout=60
    )
    complaints = [line for line in done.stderr.splitlines() if SERVICE.name in line]
    assert (done.returncode, complaints) == (0, [])


def test_the_command_of_a_service_serves(tmp_path: Path) -> None:
    line = re.search(r"^ExecStart=(.+)$", SERVICE.read_text(), re.MULTILINE)
    assert line is not None
    program, *options = shlex.split(line[1])
    with serving([str(BIN / Path(program).name), *options], tmp_path) as url:
        assert url.startswith("http://127.0.0.1:")


@contextmanager
def serving(command: list[str], data: Path) -> Iterator[str]:
    """A serving command on a free port, and the address that it announces."""
    command = ["0" if word == "8300" else word for word in command]
    environment = {"PATH": os.environ["PATH"], "RX_DATA": str(data)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("export RX_URL=http://"), line
        yield line.strip().removeprefix("export RX_URL=")
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0
        process.stdout.close()
