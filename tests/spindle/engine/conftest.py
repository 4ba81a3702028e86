from collections.abc import Iterator

import pytest

from tests.spindle.engine.bench import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.backend.hold.set()
    assert bench.engine.stop(5)
