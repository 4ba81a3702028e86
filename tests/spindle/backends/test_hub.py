"""Pulling from a model hub: the real `huggingface_hub` against a local server that speaks the hub's protocol."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from spindle.backends import models
from tests.spindle.backends.tiny import TinyModel

REVISION = "0123456789abcdef0123456789abcdef01234567"
OPEN, GATED, CODE_ONLY, ALIEN, BROKEN = "org/open", "org/gated", "org/code-only", "org/alien", "org/broken"


@dataclass
class Hub:
    """The files of every repository, and what was asked for."""

    url: str
    files: dict[str, dict[str, bytes]]
    asked: list[str] = field(default_factory=list)
    stops_after: int | None = None
    """Bytes of weights after which the connection is cut."""


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *_: object) -> None: ...  # noqa: A002

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            path = self.path.partition("?")[0].removeprefix("/")
            hub.asked.append(f"{self.command} {path}")
            repository = "/".join(path.removeprefix("api/models/").split("/")[:2])
            if repository == BROKEN:
                return self._send(500, b"", {})
            if repository not in hub.files:
                return self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
            if repository == GATED and self.headers.get("Authorization") != "Bearer hf_good":
                return self._send(403, b"", {"X-Error-Code": "GatedRepo"})
            files = hub.files[repository]
            if path.startswith("api/"):
                listing = _tree(files) if "/tree/" in path else _about(repository, files)
                return self._send(200, json.dumps(listing).encode(), {})
            content = files[path.split(f"/resolve/{REVISION}/")[1]]
            headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": REVISION}
            return self._send(200, content, headers, body=body)

        def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool = True) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                cut = hub.stops_after if len(content) > 10_000 else None
                self.wfile.write(content[:cut])
                self.close_connection = cut is not None

    return Handler


def _about(repository: str, files: dict[str, bytes]) -> object:
    siblings = [{"rfilename": file, "size": len(content)} for file, content in files.items()]
    return {"id": repository, "sha": REVISION, "siblings": siblings, "private": False, "gated": repository == GATED}


def _tree(files: dict[str, bytes]) -> object:
    return [
        {"type": "file", "path": file, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
        for file, content in files.items()
    ]


@pytest.fixture(scope="module")
def hub(llama: TinyModel) -> Iterator[Hub]:
    model = {file.name: file.read_bytes() for file in llama.path.iterdir()}
    extras = {"README.md": b"read me", "modeling.py": b"raise SystemExit('code of the repository ran')"}
    extras |= {"pytorch_model.bin": b"pickle", "onnx/model.safetensors": b"another format", "tokenizer.json": b"{}"}
    extras |= {"tokenizer-old/vocab.json": b"{}"}
    alien = model | {"config.json": json.dumps({"architectures": ["ResNetForImageClassification"]}).encode()}
    files = {OPEN: model | extras, GATED: model | extras, CODE_ONLY: extras, ALIEN: alien, BROKEN: {}}
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    hub = Hub(f"http://127.0.0.1:{server.server_port}", files)
    server.RequestHandlerClass = _handler(hub)
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield hub
        server.shutdown()
        thread.join()


@pytest.fixture
def at(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a process whose hub is that one, and that has no token. The library reads HF_ENDPOINT at import."""
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template.replace(constants.ENDPOINT, hub.url))
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    hub.asked.clear()
    return models.cache_directory(tmp_path)


def typed(name: str, data: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """`spindle models pull` as a person runs it."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "SPINDLE_"))}
    return subprocess.run(
        [sys.executable, "-m", "spindle.cli", "models", "pull", name, "--data", str(data)],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_pulls_into_our_own_cache_and_nothing_but_what_serving_takes(hub: Hub, tmp_path: Path) -> None:
    result = typed(OPEN, tmp_path, HF_ENDPOINT=hub.url, HF_HOME=str(tmp_path / "hf-home"))
    assert result.returncode == 0, result.stderr
    (model,) = models.installed(models.cache_directory(tmp_path))
    assert (model.name, model.source) == (OPEN, f"{hub.url}/{OPEN}")
    wanted = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    assert {file.name for file in model.path.iterdir()} == wanted
    assert (model.path / "model.safetensors").read_bytes() == hub.files[OPEN]["model.safetensors"]
    folder = models.cache_directory(tmp_path) / "models--org--open"
    assert (folder / "refs" / "main").read_text() == REVISION == model.path.name
    assert (folder / ".no_exist" / REVISION / "added_tokens.json").exists()
    assert not (tmp_path / "hf-home" / "hub").exists()


def test_what_is_there_is_not_fetched_again(hub: Hub, at: Path) -> None:
    first = models.pull(OPEN, at)
    hub.asked.clear()
    assert models.pull(OPEN, at) == first
    assert not [line for line in hub.asked if line.startswith("GET org")]


def test_a_pull_that_was_cut_counts_for_nothing_and_goes_on_where_it_stopped(hub: Hub, at: Path) -> None:
    hub.stops_after = 5_000
    try:
        with pytest.raises(models.ModelError, match=r"failed for org/open \(RemoteProtocolError\)"):
            models.pull(OPEN, at)
    finally:
        hub.stops_after = None
    assert models.installed(at) == []
    assert not (at / "models--org--open" / "refs" / "main").exists()
    hub.asked.clear()
    model = models.pull(OPEN, at)
    assert f"GET {OPEN}/resolve/{REVISION}/config.json" not in hub.asked
    assert (model.path / "model.safetensors").read_bytes() == hub.files[OPEN]["model.safetensors"]


def test_a_gated_model_opens_to_the_token_of_the_environment(
    hub: Hub, at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        models.ModelError, match=rf"org/gated is gated: accept its terms at {hub.url}/org/gated, .*HF_TOKEN"
    ):
        models.pull(GATED, at)
    monkeypatch.setenv("HF_TOKEN", "hf_good")
    assert models.pull(GATED, at).name == GATED


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("org/nothing", "has no model org/nothing, or it is private: check the name, or give a token in HF_TOKEN"),
        (CODE_ONLY, r"org/code-only on the hub has no config\.json and no model\*\.safetensors"),
        (BROKEN, "answered HTTP 500 when asked for org/broken"),
        (ALIEN, r"is of no architecture that Spindle can serve: its architectures \(ResNetForImageClassification\)"),
        ("../escape/x", "is not of the form ORG/NAME"),
    ],
)
def test_a_model_that_cannot_be_had_or_served(hub: Hub, at: Path, name: str, sentence: str) -> None:
    with pytest.raises(models.ModelError, match=sentence):
        models.pull(name, at)
    assert models.installed(at) == []
    assert not [line for line in hub.asked if line.startswith("GET") and line.endswith("safetensors")]


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE forbids to ask"),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "The connection to http://127.0.0.1:9 failed for org/open"),
    ],
)
def test_a_hub_out_of_reach(tmp_path: Path, environment: dict[str, str], sentence: str) -> None:
    result = typed(OPEN, tmp_path, **environment)
    assert result.returncode == 1
    (line,) = result.stderr.strip().splitlines()
    assert sentence in line


def test_a_full_disk_is_told_before_anything_is_fetched(hub: Hub, at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(at.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    with pytest.raises(models.ModelError, match=r"needs .* GB more in .*; make room"):
        models.pull(OPEN, at)
    assert not [line for line in hub.asked if "resolve" in line]
