"""`spindle doctor` finds what keeps a server from working, and says what to do about it."""

import json
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from spindle.backends import MachineError, describe
from spindle.cli import checks
from spindle.cli.checks import Check, Work
from spindle.cli.kinds import Model
from spindle.cli.settings import Settings, load
from tests.servers import tiny_model
from tests.spindle.command import spindle

WORK = Work(batch_tokens=512, rank=8, sequences=2)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def look(settings: Settings, work: Work = WORK, environment: dict[str, str] | None = None) -> dict[str, Check]:
    return {check.name: check for check in checks.checks(settings, work, environment or {})}


def settings(data: Path, **others: Any) -> Settings:
    return Settings(data=data, port=0, device="cpu", **others)


def test_the_command_ends_well_where_nothing_is_wrong_and_imports_no_sdk(tiny: Path, tmp_path: Path) -> None:
    arguments = ["--model", f"test/tiny={tiny}", "--port", "0", "--data", str(tmp_path / "new"), "--json"]
    result = spindle("doctor", *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    assert report["ok"]
    found = {check["name"]: check["found"] for check in report["checks"]}
    assert found["tinker SDK"].startswith("0.38.")
    assert "torch 2." in found["software"]
    assert found["model test/tiny"].startswith("LlamaForCausalLM; ")
    assert found["keys"] == "none yet; one is made at the first start"
    assert not (tmp_path / "new").exists()


def test_the_command_fails_in_words_where_something_is_wrong(tmp_path: Path) -> None:
    result = spindle("doctor", "--model", "org/missing", "--port", "0", "--data", str(tmp_path))
    assert (result.returncode, result.stderr) == (1, "")
    assert (
        "wrong model org/missing: not installed\n      Fetch it with `spindle models pull org/missing`" in result.stdout
    )


def test_memory_is_counted_for_the_work_asked_and_over_all_models(tiny: Path, tmp_path: Path) -> None:
    two = settings(tmp_path, models=(Model("test/one", tiny), Model("test/two", tiny)))
    found = look(two)
    assert "training 512 tokens at once" in found["model test/one"].found
    assert "sampling 2 sequences of 1024 tokens" in found["model test/one"].found
    huge = look(two, Work(batch_tokens=1 << 40, rank=8, sequences=0))
    assert huge["model test/one"].state == huge["model test/two"].state == "wrong"
    assert "It does not all fit" in str(huge["model test/one"].advice)
    assert "Its weights alone do not fit" in str(huge["model test/two"].advice)


@pytest.mark.parametrize(
    "content", [b"", b"version https://git-lfs.github.com/spec/v1\noid sha256:0", b"\x02" + bytes(7) + b"no"]
)
def test_weights_that_are_no_weights(tiny: Path, tmp_path: Path, content: bytes) -> None:
    shutil.copytree(tiny, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(content)
    check = look(settings(tmp_path, models=(Model("test/tiny", tmp_path / "model"),)))["model test/tiny"]
    assert check.state == "wrong"
    assert "model.safetensors is no safetensors file" in str(check.advice)


@pytest.mark.parametrize("device", ["cuda:99", "cuda"])
def test_a_device_that_is_not_here(tmp_path: Path, device: str) -> None:
    if device == "cuda" and describe("auto", "auto").device != "cpu":
        pytest.skip("there is one")
    with pytest.raises(MachineError, match=f"Device {device} is not here"):
        describe(device, "auto")
    check = look(Settings(data=tmp_path, port=0, device=device))["device"]
    assert check.state == "wrong"
    assert "choose cpu" in str(check.advice)


def test_more_threads_than_cores_and_spinning_ones(tmp_path: Path) -> None:
    cores = describe("cpu", "auto").cores
    assert f"--threads {cores}" in str(look(settings(tmp_path, threads=cores + 1))["threads"].advice)
    spinning = look(settings(tmp_path, threads=1), environment={"OMP_WAIT_POLICY": "active"})["threads"]
    assert "unset OMP_WAIT_POLICY" in str(spinning.advice)
    assert look(settings(tmp_path, threads=1))["threads"].state == "ok"


def test_a_busy_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (512.0, 0.0, 0.0))
    assert look(settings(tmp_path))["load"].state == "note"


@pytest.mark.parametrize(
    ("installed", "state"),
    [("0.17.3", "wrong"), ("0.18.0", "ok"), ("0.25.1", "ok"), ("0.38.0", "ok"), ("0.39.0", "wrong"), (None, "note")],
)
def test_the_sdk_is_one_that_spindle_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str | None, state: str
) -> None:
    """The package's metadata, as pip leaves them, in front of the real ones."""
    if installed is None:
        monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" not in entry])
    else:
        metadata = tmp_path / "site" / f"tinker-{installed}.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: tinker\nVersion: {installed}\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
    check = checks._sdk()
    assert check.state == state
    assert check.state == "ok" or "0.18 to 0.38" in str(check.advice)


def test_a_plugin_is_shown_with_its_hash_or_with_what_is_wrong_with_it(tmp_path: Path) -> None:
    import hashlib

    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(
        "from spindle.plugins import TokenLoss\n"
        "def terms(logprobs, inputs, config): return -logprobs\n"
        "LOSSES = [TokenLoss(name='mine', terms=terms, inputs=('weights',))]\n"
    )
    bad.write_text("1 / 0")
    assert look(settings(tmp_path, plugins=(bad,)))["plugin"].state == "wrong"
    check = look(settings(tmp_path, plugins=(good,)))["plugin"]
    assert "brings loss mine" in check.found, check
    assert hashlib.sha256(good.read_bytes()).hexdigest() in check.found


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        taken.settimeout(0)
        check = checks._port(Settings(data=tmp_path, port=taken.getsockname()[1]))
    assert check.state == "wrong"
    assert "Address already in use" in check.found


def test_a_full_or_closed_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LEAST_DISK", 1e30)
    assert "Checkpoints will not fit" in str(checks._disk(tmp_path / "data").advice)
    file = tmp_path / "file"
    file.touch()
    assert "Nothing can be written" in str(checks._disk(file / "data").advice)


def test_a_key_that_no_client_would_send(tmp_path: Path) -> None:
    (tmp_path / "api-key").write_text("hunter2")
    check = look(settings(tmp_path))["keys"]
    assert check.state == "wrong"
    assert "hunter2" not in str(check)


def test_keys_that_others_can_read(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('alice = "tml-alice-alice"')
    file.chmod(0o640)
    given = load(None, {"keys_file": str(file), "data": str(tmp_path), "port": 0, "device": "cpu"})
    check = look(given)["keys"]
    assert (check.found, check.state) == ("of alice", "note")
    assert "chmod 600" in str(check.advice)
    file.chmod(0o600)
    assert look(given)["keys"] == Check("keys", "of alice")
