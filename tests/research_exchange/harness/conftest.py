"""A real training service with a tiny model, reached by the stock SDK, and a real Exchange to report to."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tinker
from transformers import PreTrainedTokenizerFast

from tests.research_exchange.client.serving import ServedExchange, served_exchange
from tests.servers import MODEL, SpindleServer, tiny_model


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The SDK leaves the sockets of its first request to the garbage collector."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collect what the SDK left here, not in some later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedExchange]:
    with served_exchange(tmp_path_factory.mktemp("served")) as exchange:
        yield exchange


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def tokenizer(model_directory: Path) -> Any:
    """From the folder: where the hub's cache is, this process decided when it first imported the library."""
    return PreTrainedTokenizerFast.from_pretrained(model_directory)


@pytest.fixture(scope="session")
def learner(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tinker.TrainingClient]:
    server = SpindleServer(model_directory, tmp_path_factory.mktemp("spindle") / "data").start()
    with tinker.ServiceClient(base_url=server.url, api_key=server.key) as service:
        yield service.create_lora_training_client(MODEL, rank=4, seed=1).result()
    server.stop()
