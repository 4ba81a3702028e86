"""A real Exchange and a real training service with a tiny model, each in a process of its own."""

from collections.abc import Iterator

import pytest

from tests.research_exchange.client.serving import ServedExchange, served_exchange
from tests.research_exchange.runner.running import Rx, rx_beside
from tests.servers import SpindleServer, tiny_model


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedExchange]:
    with served_exchange(tmp_path_factory.mktemp("served")) as exchange:
        yield exchange


@pytest.fixture(scope="session")
def spindle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpindleServer]:
    model = tiny_model(tmp_path_factory.mktemp("model"))
    server = SpindleServer(model, tmp_path_factory.mktemp("spindle") / "data").start()
    yield server
    server.stop()


@pytest.fixture
def rx(spindle: SpindleServer) -> Rx:
    return rx_beside(spindle)
