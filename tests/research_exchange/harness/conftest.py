"""A real training service with a tiny model, reached by the stock SDK, and a real Exchange to report to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tinker
from transformers import PreTrainedTokenizerFast

from research_exchange.harness.service import service_client
from tests.research_exchange.client.serving import ServedExchange, served_exchange
from tests.sdk import collected, leave_sockets_to_the_collector
from tests.servers import MODEL, SpindleServer, tiny_model

__all__ = ["collected"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_sockets_to_the_collector(items, Path(__file__).parent)


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
def spindle(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpindleServer]:
    server = SpindleServer(model_directory, tmp_path_factory.mktemp("spindle") / "data").start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def service(spindle: SpindleServer) -> Iterator[tinker.ServiceClient]:
    with service_client(base_url=spindle.url, api_key=spindle.key, name="tests") as service:
        yield service


@pytest.fixture(scope="session")
def learner(service: tinker.ServiceClient) -> tinker.TrainingClient:
    return service.create_lora_training_client(MODEL, rank=4, seed=1).result()
