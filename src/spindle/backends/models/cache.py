"""A cache folder of the Hugging Face layout, so that clients find tokenizers by name and offline.

    models--ORG--NAME/refs/main                 the revision that clients read
    models--ORG--NAME/snapshots/REVISION/       the files, or a link to a local directory
    models--ORG--NAME/.no_exist/REVISION/FILE   empty; says that the hub has no such file
    models--ORG--NAME/spindle.json              the revision that Spindle serves, and where it came from

Without the third `AutoTokenizer.from_pretrained` asks the hub for each optional file it misses and spends most of a
minute on retries. The last one is Spindle's own memory: a client with a network may move `refs/main` on.
"""

import hashlib
import json
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import NamedTuple

from spindle.backends.models.directory import InstalledModel, ModelError, inspect
from spindle_whereabouts import data_directory

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

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
"""Any of them is a tokenizer that a client can load."""

_RECORD = "spindle.json"
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


def publish(cache: Path, name: str, revision: str) -> None:
    """Make a complete snapshot the one that clients find as `name`."""
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


def remember(cache: Path, name: str, revision: str, source: str) -> InstalledModel:
    """Make a complete snapshot the one that Spindle serves as `name`."""
    record = {"revision": revision, "source": source}
    _replace_text(repository(cache, name) / _RECORD, json.dumps(record, indent=2) + "\n")
    return InstalledModel(name=name, path=_files(cache, name, revision), source=source)


def register_local(name: str, path: Path, cache: Path) -> InstalledModel:
    """Serve a model directory under `name`: check it, and link it into the cache for its tokenizer's sake.

    The model is served from `path` itself. Raises `ModelError` if Spindle cannot serve it.
    """
    target = path.expanduser().absolute()
    repository(cache, name)
    inspect(name, target)
    _link(name, target, cache)
    return InstalledModel(name=name, path=target, source=str(target))


def add(name: str, path: Path, cache: Path) -> InstalledModel:
    """`register_local`, and remember it under `name`, so that `find` knows it."""
    model = register_local(name, path, cache)
    return remember(cache, name, _revision(model.path), model.source)


def find(name: str, cache: Path) -> InstalledModel | None:
    """The model that was pulled or added as `name`."""
    record = _record(name, cache)
    if record is None:
        return None
    return InstalledModel(name=name, path=_files(cache, name, record.revision), source=record.source)


def serve(name: str, cache: Path) -> InstalledModel:
    """An installed model, for a server: its clients then find the files that it serves.

    Raises:
        ModelError: there is none of that name, or Spindle cannot serve it.
    """
    model, record = find(name, cache), _record(name, cache)
    if model is None or record is None:
        raise not_installed(name, cache)
    inspect(name, model.path)
    if has_tokenizer(model.path):
        publish(cache, name, record.revision)
    return model


def installed(cache: Path) -> list[InstalledModel]:
    """The models that were pulled or added, by name."""
    names = sorted(_name(record.parent) for record in cache.glob(f"models--*/{_RECORD}"))
    return [model for name in names if (model := find(name, cache)) is not None]


def remove(name: str, cache: Path) -> InstalledModel:
    """Forget a model and delete the files that were pulled for it; an added directory stays as it is."""
    model = find(name, cache)
    if model is None:
        raise not_installed(name, cache)
    shutil.rmtree(repository(cache, name))
    return model


def not_installed(name: str, cache: Path) -> ModelError:
    """What to say of a name that `find` does not know."""
    there = ", ".join(model.name for model in installed(cache)) or "none"
    return ModelError(
        f"No model is installed as {name!r} (installed: {there}); fetch it with `spindle models pull {name}`, "
        f"or name its directory with `spindle models add {name}=PATH`."
    )


def size(folder: Path) -> int:
    """Bytes of the files below a folder that others may be writing to."""
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def _link(name: str, target: Path, cache: Path) -> None:
    revision = _revision(target)
    link = snapshot(cache, name, revision)
    link.parent.mkdir(parents=True, exist_ok=True)
    _replace_link(link, target)
    shutil.rmtree(repository(cache, name) / ".no_exist" / revision, ignore_errors=True)
    if has_tokenizer(target):
        publish(cache, name, revision)


def has_tokenizer(folder: Path) -> bool:
    """Whether clients find a tokenizer there."""
    return any((folder / file).is_file() for file in TOKENIZERS)


class _Record(NamedTuple):
    revision: str
    source: str


def _record(name: str, cache: Path) -> _Record | None:
    file = repository(cache, name) / _RECORD
    if not file.is_file():
        return None
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        return _Record(str(record["revision"]), str(record["source"]))
    except (ValueError, KeyError, TypeError):
        raise ModelError(f"{file} is damaged; delete it, and pull or add {name} again.") from None


def _revision(target: Path) -> str:
    """Names the snapshot that is a link to a local directory."""
    return hashlib.sha1(os.fsencode(target), usedforsecurity=False).hexdigest()


def _files(cache: Path, name: str, revision: str) -> Path:
    """A snapshot's folder; for a link, the local directory itself."""
    path = snapshot(cache, name, revision)
    return path.readlink() if path.is_symlink() else path


def _name(folder: Path) -> str:
    return folder.name.removeprefix("models--").replace("--", "/")


def _replace_text(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{uuid.uuid4().hex}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)


def _replace_link(link: Path, target: Path) -> None:
    temporary = link.with_name(f".{uuid.uuid4().hex}")
    temporary.symlink_to(target, target_is_directory=True)
    temporary.replace(link)
