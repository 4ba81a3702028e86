"""Saving, exporting and loading through a model's queue, and what happens to files that somebody reads."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pyrage
import pytest

from spindle.backends.contract import LoraShape, OptimizerConfig
from spindle.control import Failure
from spindle.control.errors import NotFoundError
from spindle.control.limits import Limits
from spindle.control.paths import CheckpointPath, Kind
from spindle.control.records import SaveOptions
from spindle.control.results import ExternalSaved, StateSaved, WeightsLoaded
from spindle.control.room import FLOOR
from spindle.control.training import NewModel
from tests.spindle.control.saving import save
from tests.spindle.control.test_service import PROMPT, Desk, until


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.backend.hold.set()
    assert desk.service.engine.stop(5)


def address(desk: Desk, kind: Kind, name: str = "a") -> CheckpointPath:
    return CheckpointPath(f"{desk.session}:train:0", kind, name)


def test_an_export_says_where_and_how_large_it_is_and_can_be_encrypted(desk: Desk) -> None:
    model_id, training, holder = desk.model(), desk.service.training, pyrage.x25519.Identity.generate()
    plain = desk.end(training.save_external(model_id, 1, "plain", SaveOptions(ttl_seconds=3600), None))
    assert plain == ExternalSaved(f"tinker://{model_id}/external_weights/plain", len(model_id))
    found = desk.service.catalogue.find(address(desk, Kind.EXTERNAL, "plain"))
    assert found.expires_at is not None
    assert {name: file.read_text() for name, file in found.files().items()} == {"adapter": model_id}
    key = str(holder.to_public())
    secret = desk.end(training.save_external(model_id, 2, "secret", SaveOptions(), [key]))
    assert isinstance(secret, ExternalSaved)
    ((name, file),) = desk.service.catalogue.find(address(desk, Kind.EXTERNAL, "secret")).files().items()
    assert name == "adapter.age"
    assert pyrage.decrypt(file.read_bytes(), [holder]).decode() == model_id
    assert secret.size_bytes == file.stat().st_size


def test_an_export_that_cannot_be_made_fails_in_its_turn_and_leaves_nothing(desk: Desk) -> None:
    model_id, training = desk.model(), desk.service.training
    refused = {
        "cannot name a checkpoint": training.save_external(model_id, 1, "a/b", SaveOptions(), None),
        "age_encryption_recipients[0] is 'alice'": training.save_external(model_id, 2, "a", SaveOptions(), ["alice"]),
        "age_encryption_recipients is empty": training.save_external(model_id, 3, "a", SaveOptions(), []),
        "ttl_seconds is 60": training.save_external(model_id, 4, "a", SaveOptions(ttl_seconds=60), None),
    }
    for words, promise in refused.items():
        assert words in desk.failure(promise)
    assert desk.service.catalogue.checkpoints() == []
    assert isinstance(desk.end(training.save_external(model_id, 5, "a", SaveOptions(), None)), ExternalSaved)
    assert "exists already" in desk.failure(training.save_external(model_id, 6, "a", SaveOptions(), None))


def test_a_samplers_weights_can_be_trained_on_but_have_no_optimizer_state(desk: Desk) -> None:
    model_id, training = desk.model(), desk.service.training
    desk.end(training.save_for_sampler(model_id, 1, "a", SaveOptions()))
    path = str(address(desk, Kind.SAMPLER))
    new = NewModel(desk.session, 1)
    made = training.create_from_state(new, path, None, None, with_optimizer=False)
    assert desk.end(made) == WeightsLoaded(path, new.model_id)
    assert desk.backend.calls[-2:] == [f"create {new.model_id}", f"load {new.model_id} {model_id} False"]
    refused = training.create_from_state(NewModel(desk.session, 2), path, None, None, with_optimizer=True)
    assert "sampler snapshot without optimizer state" in desk.failure(refused)
    loaded = desk.end(training.load_state(model_id, 2, path, with_optimizer=False))
    assert loaded == WeightsLoaded(path, model_id)


def test_an_export_is_neither_trained_on_nor_sampled_from(desk: Desk) -> None:
    model_id, training = desk.model(), desk.service.training
    desk.end(training.save_external(model_id, 1, "a", SaveOptions(), None))
    path = str(address(desk, Kind.EXTERNAL))
    assert "an export for other programs" in desk.failure(training.load_state(model_id, 2, path, with_optimizer=False))
    with pytest.raises(Exception, match="an export for other programs"):
        desk.service.samplers.create(desk.session, 0, None, path)


def test_a_training_state_can_be_sampled_from(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    desk.end(service.training.save_state(model_id, 1, "a", SaveOptions()))
    sampler = service.samplers.create(desk.session, 0, None, str(address(desk, Kind.TRAINING)))
    assert not isinstance(desk.end(service.samplers.sample(sampler.sampler_id, 0, PROMPT)), Failure)


def test_a_checkpoint_that_is_being_loaded_can_be_overwritten_and_deleted(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    desk.end(service.training.save_state(model_id, 1, "a", SaveOptions()))
    path = address(desk, Kind.TRAINING)
    old = service.catalogue.find(path).directory
    desk.backend.entered.clear()
    desk.backend.hold.clear()
    new = NewModel(desk.session, 1)
    loading = service.training.create_from_state(new, str(path), None, None, with_optimizer=True)
    assert desk.backend.entered.wait(5)
    save(service.catalogue, path, "new", SaveOptions(overwrite=True))
    service.catalogue.delete(path)
    assert (old / "state").read_text() == model_id
    desk.backend.hold.set()
    assert desk.end(loading) == WeightsLoaded(str(path), new.model_id)
    until(lambda: not old.exists())


@pytest.mark.parametrize("ending", ["deleted", "overwritten", "expired"])
def test_samples_that_wait_keep_their_weights_and_later_ones_hear_what_became_of_them(desk: Desk, ending: str) -> None:
    model_id, service = desk.model(), desk.service
    desk.end(service.training.save_for_sampler(model_id, 1, "a", SaveOptions(ttl_seconds=3600)))
    path = address(desk, Kind.SAMPLER)
    directory = service.catalogue.find(path).directory
    sampler = service.samplers.create(desk.session, 0, None, str(path)).sampler_id
    desk.blocked()
    waiting = service.samplers.sample(sampler, 0, PROMPT)
    if ending == "deleted":
        service.catalogue.delete(path)
    elif ending == "overwritten":
        save(service.catalogue, path, "new", SaveOptions(overwrite=True))
    else:
        end = service.catalogue.find(path).expires_at
        assert end is not None
        service.catalogue._now = lambda: end
        service.catalogue.delete_expired()
    assert (directory / "adapter").read_text() == model_id
    later = service.samplers.sample(sampler, 1, PROMPT)
    assert "make a new one from a checkpoint that is there" in desk.failure(later)
    desk.backend.hold.set()
    assert not isinstance(desk.end(waiting), Failure)
    until(lambda: not directory.exists())
    if ending != "overwritten":
        with pytest.raises(NotFoundError, match="There is no checkpoint"):
            service.samplers.create(desk.session, 1, None, str(path))


def test_a_save_over_the_limit_fails_its_promise_and_the_run_goes_on(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Limits(checkpoint_bytes=60))
    model_id, training = desk.model(), desk.service.training
    assert isinstance(desk.end(training.save_state(model_id, 1, "a", SaveOptions())), StateSaved)
    sentence = desk.failure(training.save_state(model_id, 2, "b", SaveOptions()))
    assert "of the 60 B that its limit checkpoint_bytes allows" in sentence
    assert f"tinker checkpoint delete tinker://{model_id}/weights/a" in sentence
    desk.service.catalogue.delete(address(desk, Kind.TRAINING))
    assert isinstance(desk.end(training.save_state(model_id, 3, "b", SaveOptions())), StateSaved)
    assert desk.service.engine.stop(5)


def test_a_full_disk_fails_saves_and_snapshots_with_a_sentence(desk: Desk) -> None:
    model_id, training, catalogue = desk.model(), desk.service.training, desk.service.catalogue
    catalogue.room = dataclasses.replace(catalogue.room, free=lambda _: FLOOR - 1)
    for promise in (training.save_state(model_id, 1, "a", SaveOptions()), training.snapshot(model_id, 2, 0)):
        assert "make room there, or delete checkpoints" in desk.failure(promise)


def test_checkpoints_of_other_owners_are_not_there_until_they_are_public(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    desk.end(service.training.save_state(model_id, 1, "a", SaveOptions()))
    path = address(desk, Kind.TRAINING)
    other = service.sessions.create("other").session_id

    def load(number: int) -> object:
        new = NewModel(other, number)
        return desk.end(service.training.create_from_state(new, str(path), None, None, with_optimizer=True))

    refused = load(0)
    assert isinstance(refused, Failure)
    assert "There is no checkpoint" in refused.error
    with pytest.raises(NotFoundError):
        service.samplers.create(other, 0, None, str(path))
    service.catalogue.set_public(path, True)
    assert load(1) == WeightsLoaded(str(path), f"{other}:train:1")
    run = service.catalogue.run(f"{other}:train:1")
    assert run is not None
    assert run.owner == "other"
    assert service.samplers.create(other, 0, None, str(path)).adapter is not None


def test_a_run_made_by_copying_is_not_trained(desk: Desk) -> None:
    model_id, service = desk.model(), desk.service
    desk.end(service.training.save_state(model_id, 1, "a", SaveOptions()))
    owner = service.sessions.get(desk.session).owner
    service.library.copy(owner, address(desk, Kind.TRAINING), f"{desk.session}:train:7", None, None)
    made = service.training.create(NewModel(desk.session, 7), "base", LoraShape(), OptimizerConfig())
    assert "exists already" in desk.failure(made)
