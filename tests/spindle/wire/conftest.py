"""One server for the tests of a file, and a session of its own for each."""

from collections.abc import Iterator

import pytest

from spindle.control.sessions import SILENT
from tests.spindle.wire.desk import Desk, open_desk


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("data")) as desk:
        yield desk


@pytest.fixture
def desk(server: Desk) -> Iterator[Desk]:
    backend = server.backend
    backend.calls.clear()
    backend.custom.clear()
    backend.loss = None
    desk = Desk(server.service, backend, server.http)
    yield desk
    desk.service.end_session(desk.session, SILENT)
