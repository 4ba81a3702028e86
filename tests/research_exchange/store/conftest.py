from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from research_exchange.store import LaunchMode, SpecRecord, Store

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPEC, RUN, TOKEN = "exp_0123456789", "run_0123456789", "rxr_a-secret"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(data: Path) -> Iterator[Store]:
    """A store that holds one spec and one run of it."""
    opened = Store.open(data)
    with opened.writing() as writer:
        writer.add_spec(SpecRecord(SPEC, "a" * 64, "A title", NOON, b'{"title": "A title"}'))
        writer.add_run(RUN, SPEC, LaunchMode.ORDINARY, TOKEN, NOON)
    yield opened
    opened.close()
