"""One real Exchange for the client's tests that do not kill it."""

import json
from collections.abc import Iterator

import pytest

from research_exchange.client import Exchange, Run
from tests.research_exchange.client.serving import ServedExchange, served_exchange
from tests.research_exchange.client.specs import SPEC


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedExchange]:
    with served_exchange(tmp_path_factory.mktemp("served")) as exchange:
        yield exchange


@pytest.fixture
def exchange(served: ServedExchange) -> Exchange:
    return served.connect()


@pytest.fixture
def run(exchange: Exchange) -> Run:
    return exchange.create_run(exchange.register(json.dumps(SPEC).encode()))
