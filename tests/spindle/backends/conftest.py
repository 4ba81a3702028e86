"""Tiny random models of each architecture, as directories that `load` takes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from spindle.backends.threads import repeat_products
from tests.spindle.backends.tiny import FAMILIES, TinyModel, write_model

repeat_products()


@pytest.fixture(scope="session", autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    """Each architecture, the output head tied and untied."""
    family, tied = request.param
    return write_model(tmp_path_factory.mktemp("models") / f"{family}-{tied}", family, tied=tied)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return write_model(tmp_path_factory.mktemp("models") / "llama", "Llama", tied=True)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Path]:
    """An existing, empty directory, as the engine hands to the backend."""
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    yield directory
