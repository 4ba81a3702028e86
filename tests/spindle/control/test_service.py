"""The control plane over an engine whose backend only records."""

import asyncio
import errno
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spindle.backends.contract import LoraShape, ModelInfo, OptimizerConfig, OptimizerStep, SamplingParams
from spindle.control import Failure, Promise, Service
from spindle.control.errors import GoneError, NotFoundError
from spindle.control.limits import Limits
from spindle.control.promises import Category
from spindle.control.records import SaveOptions
from spindle.control.results import ModelCreated, SamplerSaved, StateSaved, StepApplied, WeightsLoaded
from spindle.control.samplers import IDLE_SNAPSHOT, KEEP_SNAPSHOTS, Prompt
from spindle.control.sessions import EXPIRY, SILENT, Finish
from spindle.control.training import NewModel
from tests.spindle.engine.recording import RecordingBackend, gradient

PROMPT = Prompt(np.arange(3), 1, SamplingParams())


class Desk:
    def __init__(self, data: Path, limits: Limits | None = None) -> None:
        self.backend = RecordingBackend()
        self.service = Service.build(self.backend, data, limits=limits)
        self.skew = 0.0
        for part in (self.service.sessions, self.service.samplers, self.service.promises, self.service.pauses):
            part.clock = lambda: time.monotonic() + self.skew
        self.session = self.service.sessions.create("ann").session_id

    def end(self, promise: Promise) -> object:
        return asyncio.run(self.service.promise(promise.request_id).outcome(5))

    def close(self) -> None:
        self.service.end_session(self.session, Finish("success"))

    def pass_time(self, seconds: float) -> None:
        """In steps that a running server takes."""
        for _ in range(math.ceil(seconds / 2)):
            self.skew += 2
            self.service.tidy()

    def blocked(self) -> str:
        """A model whose first command occupies the compute thread until `backend.hold` is set."""
        model_id = self.model(9)
        self.backend.entered.clear()
        self.backend.hold.clear()
        self.service.training.optim_step(model_id, 1, OptimizerStep())
        assert self.backend.entered.wait(5)
        return model_id

    def model(self, number: int = 0) -> str:
        new = NewModel(self.session, number, {"renderer": "chat"})
        created = self.service.training.create(new, "base", LoraShape(), OptimizerConfig())
        assert self.end(created) == ModelCreated(new.model_id)
        return new.model_id

    def failure(self, promise: Promise, category: Category = Category.USER) -> str:
        outcome = self.end(promise)
        assert isinstance(outcome, Failure)
        assert outcome.category is category
        return outcome.error


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    assert desk.service.engine.stop(5)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_model_is_named_after_its_session_and_its_run_is_written_down(desk: Desk) -> None:
    model_id = desk.model()
    assert model_id == f"{desk.session}:train:0"
    run = desk.service.catalogue.run(model_id)
    assert run is not None
    assert run.user_metadata == {"renderer": "chat"}
    assert run.lora.seed == 1
    assert desk.service.training.info(model_id).base_model == "base"


def test_creating_again_with_the_same_ids_is_one_model(desk: Desk) -> None:
    desk.model()
    desk.model()
    assert desk.backend.calls == [f"create {desk.session}:train:0"]


def test_submitting_again_with_the_same_id_runs_once(desk: Desk) -> None:
    model_id, training = desk.model(), desk.service.training
    first = training.optim_step(model_id, 1, OptimizerStep({"learning_rate": 0.5}))
    assert training.optim_step(model_id, 1, OptimizerStep({"learning_rate": 0.5})) is first
    assert desk.end(first) == StepApplied({"learning_rate": 0.5})
    assert desk.backend.calls.count(f"step {model_id}") == 1


def test_a_state_is_saved_and_a_new_model_continues_from_it(desk: Desk) -> None:
    model_id, training = desk.model(), desk.service.training
    path = f"tinker://{model_id}/weights/a"
    assert desk.end(training.save_state(model_id, 1, "a", SaveOptions())) == StateSaved(path)
    new = NewModel(desk.session, 1)
    restored = training.create_from_state(new, path, None, None, with_optimizer=True)
    assert desk.end(restored) == WeightsLoaded(path, new.model_id)
    assert desk.backend.calls[-1] == f"restore {new.model_id} {model_id} True"
    assert desk.end(training.load_state(model_id, 2, path, with_optimizer=False)) == WeightsLoaded(path, model_id)


def test_requests_that_make_no_sense_fail_in_their_turn(desk: Desk) -> None:
    model_id, training = desk.model(), desk.service.training
    desk.end(training.save_state(model_id, 1, "a", SaveOptions()))
    refused = {
        "exists already": training.save_state(model_id, 2, "a", SaveOptions()),
        "cannot name a checkpoint": training.save_state(model_id, 3, "a/b", SaveOptions()),
        "is not a checkpoint path": training.load_state(model_id, 4, "a", with_optimizer=True),
        "There is no checkpoint": training.load_state(
            model_id, 5, f"tinker://{model_id}/weights/b", with_optimizer=True
        ),
        "sampler snapshot": training.load_state(
            model_id, 6, f"tinker://{model_id}/sampler_weights/a", with_optimizer=True
        ),
        "count from 1": training.optim_step(model_id, 0 - 1, OptimizerStep()),
    }
    for words, promise in refused.items():
        assert words in desk.failure(promise)
    assert isinstance(desk.end(training.optim_step(model_id, 7, OptimizerStep())), StepApplied)


def test_a_named_snapshot_and_an_ephemeral_one_can_be_sampled(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    named = desk.end(service.training.save_for_sampler(model_id, 1, "a", SaveOptions()))
    assert named == SamplerSaved(path=f"tinker://{model_id}/sampler_weights/a")
    sampler = service.samplers.create(desk.session, 0, None, f"tinker://{model_id}/sampler_weights/a")
    assert sampler.adapter is not None
    ephemeral = desk.end(service.training.snapshot(model_id, 2, 1))
    assert ephemeral == SamplerSaved(sampling_session_id=f"{desk.session}:sample:1")
    for sampler_id in (sampler.sampler_id, f"{desk.session}:sample:1"):
        assert not isinstance(desk.end(service.samplers.sample(sampler_id, 0, PROMPT)), Failure)


def test_a_snapshot_overwritten_under_a_sampling_session_is_named(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    path = f"tinker://{model_id}/sampler_weights/a"
    desk.end(service.training.save_for_sampler(model_id, 1, "a", SaveOptions()))
    sampler = service.samplers.create(desk.session, 0, None, path)
    desk.end(service.training.save_for_sampler(model_id, 2, "a", SaveOptions(overwrite=True)))
    sentence = desk.failure(service.samplers.sample(sampler.sampler_id, 0, PROMPT))
    assert sentence.startswith(f"{path} expired, or was deleted or overwritten")
    service.samplers.create(desk.session, 1, None, path)
    assert not isinstance(desk.end(service.samplers.sample(f"{desk.session}:sample:1", 0, PROMPT)), Failure)


def test_sampling_sessions_are_refused_with_a_reason(desk: Desk) -> None:
    model_id, samplers = desk.model(), desk.service.samplers
    with pytest.raises(NotFoundError, match=r"no base model 'other'; it serves base"):
        samplers.create(desk.session, 0, "other", None)
    with pytest.raises(NotFoundError, match="There is no checkpoint"):
        samplers.create(desk.session, 0, None, f"tinker://{model_id}/sampler_weights/none")
    with pytest.raises(GoneError):
        samplers.create("elsewhere", 0, "base", None)


def test_clones_of_a_sampling_session_get_numbers_of_their_own(desk: Desk) -> None:
    sampler = desk.service.samplers.create(desk.session, 0, "base", None)
    assert [desk.service.samplers.join(sampler.sampler_id) for _ in range(2)] == [1, 2]


def test_ending_a_session_frees_models_and_snapshots_and_keeps_checkpoints(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    desk.end(service.training.save_state(model_id, 1, "a", SaveOptions()))
    desk.end(service.training.snapshot(model_id, 2, 0))
    assert len(list(service.samplers.ephemeral.iterdir())) == 1
    desk.close()
    desk.close()
    until(lambda: f"unload {model_id}" in desk.backend.calls)
    until(lambda: not list(service.samplers.ephemeral.iterdir()))
    assert service.catalogue.last_state(model_id) is not None
    with pytest.raises(GoneError):
        service.sessions.touch(desk.session)
    sentence = desk.failure(service.training.optim_step(model_id, 3, OptimizerStep()))
    assert "its session ended" in sentence
    assert f"tinker://{model_id}/weights/a" in sentence


def test_a_model_whose_session_ends_during_its_step_takes_no_room(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    model_id, info = desk.model(), desk.backend.info

    def info_while_the_session_ends(model_id: str) -> ModelInfo:
        desk.close()
        return info(model_id)

    monkeypatch.setattr(desk.backend, "info", info_while_the_session_ends)
    desk.end(desk.service.training.optim_step(model_id, 1, OptimizerStep()))
    assert desk.service.training.of_session(desk.session) == []


def test_a_model_that_cannot_be_written_down_is_freed_and_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    training, new = desk.service.training, NewModel(desk.session, 0)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    made = training.create(new, "base", LoraShape(), OptimizerConfig())
    behind = training.optim_step(new.model_id, 1, OptimizerStep())
    assert "was not saved: the disk" in desk.failure(made)
    later = training.optim_step(new.model_id, 2, OptimizerStep())
    for promise in (behind, later):
        assert "could not be created; the result of its creation says why" in desk.failure(promise)
    with pytest.raises(NotFoundError, match="its creation failed"):
        training.info(new.model_id)
    until(lambda: f"unload {new.model_id}" in desk.backend.calls)


def test_a_silent_session_expires_and_heartbeats_keep_it(desk: Desk) -> None:
    model_id = desk.model()
    for _ in range(2):
        desk.pass_time(EXPIRY - 4)
        desk.service.sessions.touch(desk.session)
    assert desk.service.training.info(model_id)
    desk.pass_time(EXPIRY + 4)
    assert desk.service.sessions.get(desk.session).finish == SILENT
    with pytest.raises(NotFoundError, match="its session ended"):
        desk.service.training.info(model_id)


def test_a_session_that_asks_for_results_is_alive(desk: Desk) -> None:
    """A client whose heartbeats are held up, but which polls."""
    model_id = desk.model()
    desk.pass_time(EXPIRY - 4)
    desk.end(desk.service.training.optim_step(model_id, 1, OptimizerStep()))
    desk.pass_time(8)
    assert desk.service.training.info(model_id)


def test_a_server_that_stood_still_ends_nobody_and_gives_up_on_nothing(desk: Desk) -> None:
    """SIGSTOP, or a laptop's lid: no heartbeat could arrive meanwhile."""
    model_id = desk.model()
    desk.service.tidy()
    parked = desk.service.training.optim_step(model_id, 2, OptimizerStep())
    desk.skew += 10 * EXPIRY
    desk.service.tidy()
    assert desk.service.training.info(model_id)
    assert not parked.future.done()
    desk.pass_time(EXPIRY + 4)
    with pytest.raises(GoneError):
        desk.service.sessions.touch(desk.session)


def test_what_an_earlier_process_promised_fails_at_once_and_says_how_to_go_on(tmp_path: Path) -> None:
    before = Desk(tmp_path)
    model_id = before.model()
    before.end(before.service.training.save_state(model_id, 1, "a", SaveOptions()))
    assert before.service.engine.stop(5)
    after = Desk(tmp_path)
    advice = f"create_training_client_from_state_with_optimizer('tinker://{model_id}/weights/a')"
    outcome = asyncio.run(after.service.promise(f"{model_id}:2").outcome(5))
    assert isinstance(outcome, Failure)
    assert outcome.category is Category.SERVER
    assert "Spindle was restarted" in outcome.error
    assert advice in outcome.error
    submitted = after.failure(after.service.training.forward_backward(2, gradient(model_id)), Category.SERVER)
    assert "Spindle was restarted" in submitted
    assert advice in submitted
    old_session = before.session
    new = NewModel(old_session, 5)
    created = after.service.training.create(new, "base", LoraShape(), OptimizerConfig())
    assert "Spindle was restarted" in after.failure(created, Category.SERVER)
    sampled = after.service.samplers.sample(f"{old_session}:sample:0", 0, PROMPT)
    assert "Spindle was restarted" in after.failure(sampled, Category.SERVER)
    with pytest.raises(GoneError):
        after.service.sessions.touch(old_session)
    assert after.service.engine.stop(5)


def test_ephemeral_snapshots_of_an_earlier_process_are_swept(tmp_path: Path) -> None:
    (tmp_path / "ephemeral" / "old").mkdir(parents=True)
    desk = Desk(tmp_path)
    assert list(desk.service.samplers.ephemeral.iterdir()) == []
    assert desk.service.engine.stop(5)


def test_old_idle_ephemeral_snapshots_go_but_the_newest_stay(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    for number in range(KEEP_SNAPSHOTS + 3):
        desk.end(service.training.snapshot(model_id, number + 1, number))
    service.samplers.tidy()
    assert service.samplers.get(f"{desk.session}:sample:0")
    desk.skew = IDLE_SNAPSHOT + 1
    service.samplers.sample(f"{desk.session}:sample:1", 0, PROMPT)
    service.samplers.tidy()
    for number in (0, 2):
        with pytest.raises(NotFoundError, match="many newer snapshots"):
            service.samplers.get(f"{desk.session}:sample:{number}")
    for number in (1, 3, KEEP_SNAPSHOTS + 2):
        assert service.samplers.get(f"{desk.session}:sample:{number}")
    until(lambda: len(list(service.samplers.ephemeral.iterdir())) == KEEP_SNAPSHOTS + 1)


def test_samplers_that_follow_their_run_sample_its_latest_snapshot(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    desk.end(service.training.snapshot(model_id, 1, 0, follows=True))
    desk.end(service.training.snapshot(model_id, 2, 1))
    first = [service.samplers.get(f"{desk.session}:sample:{number}").adapter for number in range(2)]
    desk.end(service.training.snapshot(model_id, 3, 2, follows=True))
    moved, kept, latest = [service.samplers.get(f"{desk.session}:sample:{number}").adapter for number in range(3)]
    assert moved == latest != first[0]
    assert kept == first[1]
    until(lambda: {*service.samplers.ephemeral.iterdir()} == {kept, latest})
    assert not isinstance(desk.end(service.samplers.sample(f"{desk.session}:sample:0", 0, PROMPT)), Failure)
    desk.close()
    until(lambda: not list(service.samplers.ephemeral.iterdir()))


def test_a_snapshot_stays_as_long_as_a_request_reads_it(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    desk.end(service.training.snapshot(model_id, 1, 0))
    (directory,) = service.samplers.ephemeral.iterdir()
    desk.blocked()
    sampled = service.samplers.sample(f"{desk.session}:sample:0", 0, PROMPT)
    service.samplers.close_session(desk.session)
    done = threading.Event()
    service.engine.later(done.set)
    assert done.wait(5)
    assert directory.is_dir()
    desk.backend.hold.set()
    assert not isinstance(desk.end(sampled), Failure)
    until(lambda: not directory.exists())


def test_samples_of_a_session_that_ended_are_not_computed(desk: Desk) -> None:
    sampler = desk.service.samplers.create(desk.session, 0, "base", None)
    endless = replace(PROMPT, params=SamplingParams(max_tokens=1_000_000))
    running = desk.service.samplers.sample(sampler.sampler_id, 0, endless)
    until(lambda: any(call.startswith("sample") for call in desk.backend.calls))
    desk.blocked()
    waiting = desk.service.samplers.sample(sampler.sampler_id, 1, PROMPT)
    desk.close()
    for promise in (running, waiting):
        assert "cancelled by its client, or with its session" in desk.failure(promise)
    desk.backend.hold.set()
    assert desk.service.samplers.sequences.held_by(sampler.sampler_id) == 0


def test_a_snapshot_that_outlasts_its_session_goes_too(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    desk.backend.entered.clear()
    desk.backend.hold.clear()
    promise = service.training.snapshot(model_id, 1, 0)
    assert desk.backend.entered.wait(5)
    desk.close()
    desk.backend.hold.set()
    desk.end(promise)
    service.tidy()
    until(lambda: not list(service.samplers.ephemeral.iterdir()))
    with pytest.raises(NotFoundError):
        service.samplers.get(f"{desk.session}:sample:0")


def test_a_stopped_service_leaves_checkpoints_alone_on_the_disk(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    desk.end(service.training.save_state(model_id, 1, "a", SaveOptions()))
    desk.end(service.training.snapshot(model_id, 2, 0))
    service.stop(5)
    assert not service.samplers.ephemeral.exists()
    assert service.catalogue.last_state(model_id) is not None


def test_a_retried_session_creation_is_one_session(desk: Desk) -> None:
    sessions = desk.service.sessions
    first = sessions.create("ann", idempotency_key="retry-key")
    assert sessions.create("ann", idempotency_key="retry-key") is first
    assert sessions.create("ann", idempotency_key="other-key") is not first
    assert sessions.create("bob", idempotency_key="retry-key") is not first
