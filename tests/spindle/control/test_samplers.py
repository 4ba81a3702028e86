"""Ephemeral snapshots: none is lost while a request wants it, and none is left behind."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spindle.backends.contract import LoraShape, OptimizerConfig, SampleBatch, SampleRequest, SamplingParams, UserError
from spindle.control import Service
from spindle.control.results import SamplerSaved
from spindle.control.samplers import Prompt
from spindle.control.training import NewModel
from tests.spindle.engine.recording import RecordingBackend, RecordingBatch

PROMPT = Prompt(np.arange(3), 1, SamplingParams())


class ReadingBackend(RecordingBackend):
    """Its samples read their adapter; its disk can be full."""

    full = False

    def __init__(self) -> None:
        super().__init__()
        self.read: list[Path] = []

    def sampling(self, base_model: str) -> SampleBatch:
        return ReadingBatch(self)

    def save_adapter(self, model_id: str, directory: Path) -> None:
        super().save_adapter(model_id, directory)
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


class ReadingBatch(RecordingBatch):
    def __init__(self, backend: ReadingBackend) -> None:
        super().__init__(backend)
        self._read = backend.read

    def add(self, key: int, request: SampleRequest) -> None:
        assert request.adapter is not None
        assert (request.adapter / "adapter").is_file()
        self._read.append(request.adapter)
        super().add(key, request)


@pytest.fixture
def backend() -> ReadingBackend:
    return ReadingBackend()


@pytest.fixture
def service(backend: ReadingBackend, tmp_path: Path) -> Iterator[Service]:
    service = Service.build(backend, tmp_path)
    yield service
    service.stop(5)


@pytest.fixture
def model_id(service: Service) -> str:
    new = NewModel(service.sessions.create("ann").session_id, 0)
    service.training.create(new, "base", LoraShape(), OptimizerConfig()).future.result(5)
    return new.model_id


def test_a_request_reads_the_weights_that_are_kept_for_it_while_its_sampler_moves_on(
    service: Service, backend: ReadingBackend, model_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next snapshot comes when the request has looked which weights to keep, and does not keep them yet."""
    saved = service.training.snapshot(model_id, 1, 0, follows=True).future.result(5)
    leases = service.samplers._leases
    kept, take = list[Path](), leases.take

    def move_on() -> None:
        service.training.snapshot(model_id, 2, 1, follows=True).future.result(5)

    mover = threading.Thread(target=move_on)

    def take_late(directory: Path) -> None:
        mover.start()
        mover.join(0.5)
        take(directory)
        kept.append(directory)

    monkeypatch.setattr(leases, "take", take_late)
    assert service.samplers.sample(saved.sampling_session_id, 0, PROMPT).future.result(5)
    mover.join(5)
    assert backend.read == kept


def test_a_snapshot_that_cannot_be_written_says_so_and_leaves_nothing(
    service: Service, backend: ReadingBackend, model_id: str
) -> None:
    backend.full = True
    with pytest.raises(UserError, match="A sampler snapshot was not saved: the disk"):
        service.training.snapshot(model_id, 1, 0).future.result(5)
    assert list(service.samplers.ephemeral.iterdir()) == []
    backend.full = False
    assert service.training.snapshot(model_id, 2, 0).future.result(5)


def test_a_number_that_is_taken_does_not_replace_its_snapshot(service: Service, model_id: str) -> None:
    taken = service.training.snapshot(model_id, 1, 0).future.result(5)
    assert isinstance(taken, SamplerSaved)
    with pytest.raises(UserError, match=":sample:0 exists already"):
        service.training.snapshot(model_id, 2, 0).future.result(5)
    assert len(list(service.samplers.ephemeral.iterdir())) == 1
