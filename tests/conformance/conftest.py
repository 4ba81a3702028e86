"""One server for all conformance tests, reached by the stock SDK."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import tinker

from tests.conformance import public_calls
from tests.sdk import collected, leave_sockets_to_the_collector
from tests.servers import MODEL, SpindleServer, tiny_model

__all__ = ["collected"]


FOLDER = Path(__file__).parent
LAST = "test_public_calls.py"
LATE = "test_07_a_poll_is_held_about_half_a_minute"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for half a minute comes late, and what looks back on the calls of the other tests last."""
    leave_sockets_to_the_collector(items, FOLDER)
    items.sort(key=lambda item: (item.path == FOLDER / LAST, item.name == LATE))


@pytest.fixture(scope="session", autouse=True)
def called() -> Iterator[set[str]]:
    """The public methods of the SDK that were called so far."""
    with public_calls.recorded() as used:
        yield used


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def server(model_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpindleServer]:
    server = SpindleServer(model_directory, tmp_path_factory.mktemp("server") / "data").start()
    yield server
    assert server.stop() < 30
    assert server.status == 0
    assert "Traceback" not in server.log


@pytest.fixture
def service(server: SpindleServer) -> Iterator[tinker.ServiceClient]:
    client = tinker.ServiceClient(base_url=server.url, api_key=server.key)
    yield client
    client.close("success").result(10)


@pytest.fixture
def http(server: SpindleServer) -> Iterator[httpx.Client]:
    """Without the SDK, to send what it would not."""
    with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": server.key}, timeout=60) as client:
        yield client


@pytest.fixture
def training(service: tinker.ServiceClient) -> tinker.TrainingClient:
    return service.create_lora_training_client(base_model=MODEL, rank=4, seed=1).result(30)


@pytest.fixture
def mortal(model_directory: Path, tmp_path: Path) -> Iterator[SpindleServer]:
    """A server of one's own, to be killed."""
    server = SpindleServer(model_directory, tmp_path / "data", options=("--grace", "3")).start()
    yield server
    server.stop()
