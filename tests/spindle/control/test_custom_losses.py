"""Uploaded losses: how many a session may have, and that none outlives its session."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from spindle.backends.contract import CustomLoss, UserError
from spindle.control import Promise, Service
from spindle.control.custom_losses import MOST
from spindle.control.sessions import SILENT
from tests.spindle.engine.recording import RecordingBackend


class SlowChecks(RecordingBackend):
    """Uploaded losses are checked once `checking` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.checking = threading.Event()

    def check_custom_loss(self, loss: CustomLoss) -> None:
        assert self.checking.wait(20)
        super().check_custom_loss(loss)


@pytest.fixture
def backend() -> SlowChecks:
    return SlowChecks()


@pytest.fixture
def service(backend: SlowChecks, tmp_path: Path) -> Iterator[Service]:
    service = Service.build(backend, tmp_path)
    yield service
    backend.checking.set()
    service.stop(5)


def upload(service: Service, session_id: str, number: int, name: str = "mine") -> Promise:
    return service.losses.create(session_id, number, name, {"logprobs": 1}, {})


def failure(future: "Future[Any]") -> str:
    return str(future.exception(5))


def test_losses_that_are_being_checked_count_and_refused_ones_do_not(service: Service, backend: SlowChecks) -> None:
    session_id = service.sessions.create("ann").session_id
    first, *_, last = (
        upload(service, session_id, number, "bad" if number == 0 else "mine").future for number in range(MOST + 1)
    )
    assert "256 uploaded losses already" in failure(last)
    backend.checking.set()
    assert "bad graph" in failure(first)
    assert upload(service, session_id, MOST + 1).future.result(5)
    assert "256 uploaded losses already" in failure(upload(service, session_id, MOST + 2).future)


def test_a_loss_that_is_cancelled_before_it_is_checked_does_not_count(service: Service) -> None:
    session_id = service.sessions.create("ann").session_id
    promises = [upload(service, session_id, number) for number in range(MOST)]
    service.promises.cancel(promises[-1].request_id)
    assert not upload(service, session_id, MOST).future.done(), "there is room to check it"


def test_a_loss_whose_session_ends_while_it_is_checked_is_not_kept(service: Service, backend: SlowChecks) -> None:
    session_id = service.sessions.create("ann").session_id
    stored = upload(service, session_id, 0)
    service.end_session(session_id, SILENT)
    backend.checking.set()
    stored.future.exception(5)
    with pytest.raises(UserError, match="names no loss of this session"):
        service.losses.resolve({"loss_id": f"{session_id}:loss:0"}, f"{session_id}:train:0")
