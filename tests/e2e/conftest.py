"""The real model, the real services, the whole way: minutes, not seconds."""

from pathlib import Path

import pytest

from spindle.backends import models
from spindle_whereabouts import data_directory
from tests.e2e.rx import Rx


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def installed_models() -> Path:
    """The cache that holds the default model, which is pulled when it is missing."""
    cache = models.cache_directory(data_directory(None))
    models.pull(models.DEFAULT_MODEL, cache)
    return cache


@pytest.fixture(scope="module")
def rx(tmp_path_factory: pytest.TempPathFactory, installed_models: Path) -> Rx:
    folder = tmp_path_factory.mktemp("e2e")
    spindle_data = folder / "spindle"
    spindle_data.mkdir()
    (spindle_data / installed_models.name).symlink_to(installed_models)
    return Rx(folder / "exchange", spindle_data)
