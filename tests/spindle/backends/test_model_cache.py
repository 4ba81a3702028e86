"""Installed models: what Spindle remembers of them, whatever clients do to the cache that they share."""

import json
import shutil
from pathlib import Path

import pytest

from spindle.backends import models
from spindle.backends.models import wheels
from tests.spindle.backends.tiny import TinyModel

NAME = "test-org/tiny"


@pytest.fixture
def directory(llama: TinyModel, tmp_path: Path) -> Path:
    copy = tmp_path / "model"
    shutil.copytree(llama.path, copy)
    (copy / "tokenizer.json").write_text("{}")
    return copy


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return models.cache_directory(tmp_path)


def test_an_added_model_is_found_served_listed_and_forgotten(directory: Path, cache: Path) -> None:
    model = models.InstalledModel(NAME, directory, str(directory))
    assert models.find(NAME, cache) is None
    assert models.add(NAME, directory, cache) == model
    assert models.find(NAME, cache) == models.serve(NAME, cache) == model
    assert models.installed(cache) == [model]
    assert models.remove(NAME, cache) == model
    assert models.installed(cache) == []
    assert (directory / "model.safetensors").is_file()
    with pytest.raises(models.ModelError, match="No model is installed as 'test-org/tiny'"):
        models.serve(NAME, cache)


def test_adding_again_takes_the_other_directory(directory: Path, cache: Path, tmp_path: Path) -> None:
    models.add(NAME, directory, cache)
    other = shutil.copytree(directory, tmp_path / "other")
    models.add(NAME, other, cache)
    assert models.installed(cache) == [models.InstalledModel(NAME, other, str(other))]


def test_a_client_that_moves_on_to_the_hubs_files_changes_nothing_that_is_served(directory: Path, cache: Path) -> None:
    """With a network, `AutoTokenizer` writes the hub's revision to refs/main and its files beside ours."""
    model = models.add(NAME, directory, cache)
    folder = cache / "models--test-org--tiny"
    ours = (folder / "refs" / "main").read_text()
    theirs = folder / "snapshots" / ("f" * 40)
    theirs.mkdir()
    (theirs / "tokenizer.json").write_text("{}")
    (folder / "refs" / "main").write_text(theirs.name)
    assert models.find(NAME, cache) == model
    assert models.serve(NAME, cache) == model
    assert (folder / "refs" / "main").read_text() == ours


def test_a_directory_without_tokenizer_leaves_the_hubs_to_clients(directory: Path, cache: Path) -> None:
    (directory / "tokenizer.json").unlink()
    models.add(NAME, directory, cache)
    models.serve(NAME, cache)
    folder = cache / "models--test-org--tiny"
    assert not (folder / "refs").exists()
    assert not (folder / ".no_exist").exists()


def test_a_record_that_is_damaged(directory: Path, cache: Path) -> None:
    models.add(NAME, directory, cache)
    record = cache / "models--test-org--tiny" / "spindle.json"
    record.write_text(json.dumps(["revision"]))
    with pytest.raises(models.ModelError, match=r"spindle\.json is damaged; delete it"):
        models.installed(cache)


def test_weights_of_ones_own_under_the_default_name_are_the_default(directory: Path, cache: Path) -> None:
    name = wheels.WHEEL_MODELS[models.DEFAULT_MODEL].name
    mine = models.add(name, directory, cache)
    assert models.full_name(models.DEFAULT_MODEL) == name
    assert models.default(cache) == mine
