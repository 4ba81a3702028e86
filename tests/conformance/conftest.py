"""One server for all conformance tests, reached by the stock SDK."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import tinker

from tests.sdk import collected, leave_sockets_to_the_collector
from tests.servers import MODEL, SpindleServer, tiny_model

__all__ = ["collected"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_sockets_to_the_collector(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def server(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpindleServer]:
    server = SpindleServer(model_directory, tmp_path_factory.mktemp("server") / "data").start()
    yield server
    assert server.stop() < 10
    assert server.status == 0
    assert "Traceback" not in server.log


@pytest.fixture
def service(server: SpindleServer) -> Iterator[tinker.ServiceClient]:
    client = tinker.ServiceClient(base_url=server.url, api_key=server.key)
    yield client
    client.close("success").result(10)


@pytest.fixture
def training(service: tinker.ServiceClient) -> tinker.TrainingClient:
    return service.create_lora_training_client(base_model=MODEL, rank=4, seed=1).result(30)
