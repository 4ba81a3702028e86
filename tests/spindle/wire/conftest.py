from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spindle.wire.desk import Desk, open_desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path) as desk:
        yield desk
