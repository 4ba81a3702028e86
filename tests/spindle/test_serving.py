"""`spindle serve` and `spindle models` as a person uses them: files, several models, several owners, plugins."""

import hashlib
import shutil
from pathlib import Path

import httpx
import pytest

from tests.servers import MODEL, SpindleServer, tiny_model
from tests.spindle.command import spindle


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def served(server: SpindleServer, key: str) -> httpx.Response:
    return httpx.get(f"{server.url}/api/v1/get_server_capabilities", headers={"X-API-Key": key})


def quickest_answer(server: SpindleServer) -> float:
    """Seconds; 0.04 where a body waits until its headers are acknowledged, from which the first few are exempt."""
    with httpx.Client() as http:
        return min([http.get(f"{server.url}/api/v1/healthz").elapsed.total_seconds() for _ in range(50)][20:])


def test_models_are_added_listed_one_a_line_served_by_name_and_removed(tiny: Path, tmp_path: Path) -> None:
    data, source = tmp_path / "data", tmp_path / ("a-very-long-folder-name-" * 6)
    shutil.copytree(tiny, source)
    bare = tmp_path / "bare"
    shutil.copytree(tiny, bare, ignore=shutil.ignore_patterns("tokenizer*"))
    assert spindle("models", "add", f"org/one={source}", "--data", str(data)).returncode == 0
    added = spindle("models", "add", f"org/bare={bare}", "--data", str(data))
    assert "holds no tokenizer; clients look for that of org/bare on the Hugging Face hub" in added.stderr
    for listing in (spindle("models", "--data", str(data)), spindle("models", "list", "--data", str(data))):
        assert (listing.returncode, listing.stderr) == (0, "")
        lines = [line.split("\t") for line in listing.stdout.splitlines()]
        assert [(name, architecture, context) for name, architecture, _, context, *_ in lines] == [
            ("org/bare", "LlamaForCausalLM", "1024"),
            ("org/one", "LlamaForCausalLM", "1024"),
        ]
        assert lines[1][-1] == str(source)

    server = SpindleServer(tiny, data, options=("--model", "org/one", "--model", "org/bare")).start()
    try:
        names = [model["model_name"] for model in served(server, server.key).json()["supported_models"]]
        assert sorted(names) == ["org/bare", "org/one", MODEL]
        assert "Another spindle serves" in spindle("models", "remove", "org/one", "--data", str(data)).stderr
        assert quickest_answer(server) < 0.03
    finally:
        server.stop()
    assert server.status == 0

    removed = spindle("models", "remove", "org/one", "--data", str(data))
    assert "org/one is forgotten; its files stay in" in removed.stderr
    assert (source / "model.safetensors").exists()
    assert spindle("models", "list", "--data", str(data)).stdout.startswith("org/bare\t")
    again = spindle("models", "remove", "org/one", "--data", str(data))
    assert again.returncode == 1
    assert "No model is installed as 'org/one' (installed: org/bare)" in again.stderr
    shutil.rmtree(bare)
    gone = spindle("models", "list", "--data", str(data))
    assert (gone.returncode, gone.stdout) == (0, "")
    assert f"{bare}/config.json does not exist" in gone.stderr


def test_a_file_gives_a_server_its_keys_limits_and_plugins_and_the_start_says_so(tiny: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from spindle.plugins import TokenLoss\n"
        "def terms(logprobs, inputs, config): return -logprobs\n"
        "LOSSES = [TokenLoss(name='mine', terms=terms, inputs=())]\n"
    )
    config = tmp_path / "spindle.toml"
    config.write_text(
        'threads = 1\nplugins = ["mine.py"]\npublic_url = "https://spindle.example"\n'
        "[limits]\nsessions = 3\n"
        '[keys]\nalice = "tml-alice-alice"\nbob = "tml-bob-bob-bob"\n'
    )
    config.chmod(0o644)
    data = tmp_path / "data"
    server = SpindleServer(tiny, data, options=("--config", str(config), "--device", "cpu")).start()
    try:
        assert set(server.exports) == {"TINKER_BASE_URL", "HF_HUB_CACHE"}
        assert served(server, "tml-alice-alice").status_code == served(server, "tml-bob-bob-bob").status_code == 200
        assert served(server, "tml-carol-carol").status_code == 401
    finally:
        server.stop()
    said = server.log
    assert f"{config} holds keys and others on this machine can read it; `chmod 600 {config}` helps." in said
    assert f"serves {MODEL} at {server.url}" in said
    assert "runs on cpu (1 threads), float32" in said
    assert f"plugin {plugin} brings loss mine (sha256 {hashlib.sha256(plugin.read_bytes()).hexdigest()})" in said
    assert "limit sessions 3 (usually 1,024)" in said
    assert "from outside: https://spindle.example" in said
    assert "the key of alice, bob" in said
    assert "tml-" not in said
    assert not (data / "api-key").exists()


def test_what_is_in_force_is_printed_and_nothing_is_served(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text('alice = "tml-alice-alice"\n')
    result = spindle(
        "serve", "--keys-file", str(keys), "--limit", "models=3", "--print-config", "--data", str(tmp_path)
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "\nmodels = 3\n" in result.stdout
    assert 'alice = "tml-***"' in result.stdout
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--config", "/nowhere.toml"), "/nowhere.toml cannot be read (No such file or directory)"),
        (("--device", "cuda:99"), "Device cuda:99 is not here"),
        (("--plugin", "/nowhere.py"), "plugin /nowhere.py cannot be read"),
        (("--limit", "models=0"), "--limit models must be a whole number from 1, found 0."),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(
    tiny: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    base = ("serve", "--model", f"{MODEL}={tiny}", "--port", "0", "--data", str(tmp_path))
    assert spindle(*base, *arguments).complaint.startswith(f"spindle: {sentence}")
