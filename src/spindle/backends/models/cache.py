"""A cache folder of the Hugging Face layout, so that clients find tokenizers by name and offline.

    models--ORG--NAME/refs/main                 the revision
    models--ORG--NAME/snapshots/REVISION/       the files, or a link to a local directory
    models--ORG--NAME/.no_exist/REVISION/FILE   empty; says that the hub has no such file

Without the last ones `AutoTokenizer.from_pretrained` asks the hub for each optional file it misses and spends most of
a minute on retries.
"""

import hashlib
import os
import re
import shutil
import uuid
from pathlib import Path

from spindle.backends.models.directory import InstalledModel, ModelError, inspect
from spindle.config import data_directory

OPTIONAL_FILES = (
    "added_tokens.json",
    "additional_chat_templates",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "tekken.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)
"""What transformers may look for beside tokenizer.json; those a snapshot lacks are marked as not existing."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def cache_directory(data: Path | None = None) -> Path:
    """Spindle's own model cache, for `HF_HUB_CACHE`; `data` None means the user's data folder."""
    return data_directory(data) / "hub"


def repository(cache: Path, name: str) -> Path:
    """The folder of a model in the cache. Raises `ModelError` for a name that no client could ask for."""
    if not _NAME.fullmatch(name) or "--" in name or ".." in name:
        raise ModelError(
            f"Model name {name!r} is not of the form ORG/NAME with letters, digits, '-', '_' and '.'; "
            "choose the name under which its tokenizer is known."
        )
    return cache / f"models--{name.replace('/', '--')}"


def snapshot(cache: Path, name: str, revision: str) -> Path:
    """Where the files of one revision stand (or will)."""
    return repository(cache, name) / "snapshots" / revision


def publish(cache: Path, name: str, revision: str) -> InstalledModel:
    """Make a complete snapshot the one that `name` resolves to."""
    folder = repository(cache, name)
    path = snapshot(cache, name, revision)
    absent = folder / ".no_exist" / revision
    absent.mkdir(parents=True, exist_ok=True)
    for file in OPTIONAL_FILES:
        if (path / file).exists():
            (absent / file).unlink(missing_ok=True)
        else:
            (absent / file).touch()
    _replace_text(folder / "refs" / "main", revision)
    return InstalledModel(name=name, path=path)


def register_local(name: str, path: Path, cache: Path) -> InstalledModel:
    """Serve a model directory under `name`: check it, and link it into the cache for its tokenizer's sake.

    The model is served from `path` itself. Raises `ModelError` if Spindle cannot serve it.
    """
    target = path.expanduser().absolute()
    folder = repository(cache, name)
    inspect(name, target)
    if (target / "tokenizer.json").is_file():
        revision = hashlib.sha1(os.fsencode(target), usedforsecurity=False).hexdigest()
        link = snapshot(cache, name, revision)
        link.parent.mkdir(parents=True, exist_ok=True)
        _replace_link(link, target)
        shutil.rmtree(folder / ".no_exist" / revision, ignore_errors=True)
        publish(cache, name, revision)
    return InstalledModel(name=name, path=target)


def installed(cache: Path) -> list[InstalledModel]:
    """The models in the cache that have weights, by name."""
    models = []
    for ref in sorted(cache.glob("models--*/refs/main")):
        folder = ref.parent.parent
        path = folder / "snapshots" / ref.read_text(encoding="utf-8").strip()
        if any(path.glob("*.safetensors")):
            models.append(InstalledModel(name=folder.name.removeprefix("models--").replace("--", "/"), path=path))
    return models


def _replace_text(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{uuid.uuid4().hex}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)


def _replace_link(link: Path, target: Path) -> None:
    temporary = link.with_name(f".{uuid.uuid4().hex}")
    temporary.symlink_to(target, target_is_directory=True)
    temporary.replace(link)
